# Pack the packages in user-software/ into one file, which containers then use instead. Sourced by wrapper.

_packed=$_root/user-software.squashfs _part=$_root/.user-software.squashfs.hpcmod-part.$$
! in_container || stop 1 'run this outside the container'
[[ -d $_root/user-software ]] || stop 2 "$_root/user-software not found"
[[ ! -e $_packed ]] || stop 3 "$_packed exists. Remove it first, if $_root/user-software is newer"
find_program mksquashfs || stop 7 'mksquashfs is not on PATH'
trap 'rm -f -- "$_part"' EXIT
# Quiet about success, but not about errors. mksquashfs warns about extended attributes that it does not know.
"$REPLY" "$_root/user-software" "$_part" -processors 1 -no-progress -no-xattrs -noappend >/dev/null </dev/null ||
  stop 7 "mksquashfs failed; $_packed was not created"
mv -n -- "$_part" "$_packed" || stop 7 "$_packed was not created"
say "created $_packed, which containers use from now on. To save files, remove the directory: rm -r $_root/user-software"
