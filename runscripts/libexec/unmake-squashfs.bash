# Unpack user-software.squashfs into user-software/, to change packages. Sourced by wrapper.

_packed=$_root/user-software.squashfs _part=$_root/.user-software.hpcmod-part.$$
! in_container || stop 1 'run this outside the container'
[[ -f $_packed ]] || stop 2 "$_packed not found"
[[ ! -e $_root/user-software ]] || stop 3 "$_root/user-software exists. Remove it first, if $_packed is newer"
find_program unsquashfs || stop 7 'unsquashfs is not on PATH'
trap 'rm -rf -- "$_part"' EXIT
"$REPLY" -processors 1 -no-progress -no-xattrs -dest "$_part" "$_packed" >/dev/null </dev/null ||
  stop 7 "unsquashfs failed; $_root/user-software was not created"
mv -T -n -- "$_part" "$_root/user-software" || stop 7 "$_root/user-software was not created"
say "created $_root/user-software. To use it instead of the file: rm $_packed"
