-- What some container modules look for on disk while they are loaded: patterns, targets of links, packages, notices.
local container, exists, is_file, message = ...
local files = {}

local function kernel()
    local file = io.open("/proc/sys/kernel/osrelease")
    local release = file and file:read() or ""
    if file then file:close() end
    return release
end

-- Return the newest path that matches a pattern: 1.10 before 1.9, numbers before words. Captured libraries whose originals
-- are on this node come first.
function files.newest(pattern)
    local found = {""}
    for part in pattern:gmatch("[^/]+") do
        part = part:gsub("{uname_r}", (kernel():gsub("%%", "%%%%")))
        local glob = "^" .. part:gsub("[^%w*?]", "%%%0"):gsub("%*", ".*"):gsub("%?", ".") .. "$"
        local grown = {}
        for _, base in ipairs(found) do
            local opened, entries, directory = false
            if part:find("[*?]") then opened, entries, directory = pcall(lfs.dir, base .. "/") end
            if not part:find("[*?]") then grown[#grown + 1] = base .. "/" .. part end
            for name in opened and entries or function() end, directory do
                if name:find("^[^.]") and name:find(glob) then grown[#grown + 1] = base .. "/" .. name end
            end
        end
        found = grown
    end
    local best, best_key
    for _, path in ipairs(found) do
        local key = path:gsub("%d+", function(digits) return "~" .. string.rep("0", 12 - #digits) .. digits end)
        key = (exists(path .. "/.on-host") and "1" or "0") .. key
        if exists(path) and (not best or key > best_key) then best, best_key = path, key end
    end
    return best
end

local function resolve_links(path)
    local done, todo, left = "", path, 40
    while left > 0 and todo:find("[^/]") do
        local part, rest = todo:match("^/*([^/]+)(.*)$")
        local known, target = pcall(lfs.symlinkattributes, done .. "/" .. part, "target")
        if known and type(target) == "string" then
            left = left - 1
            if target:sub(1, 1) == "/" then done = "" end
            todo = target .. rest
        else
            if part == ".." then done = done:gsub("/[^/]*$", "") elseif part ~= "." then done = done .. "/" .. part end
            todo = rest
        end
    end
    return left > 0 and done or path
end

-- Bind the targets of symbolic links too, so that links below them resolve, but never over the image's own files.
local own_trees = { usr = 1, bin = 1, sbin = 1, lib = 1, lib64 = 1, etc = 1, dev = 1, proc = 1, sys = 1 }
function files.follow_links(linked, taken, bind)
    for _, source in ipairs(linked) do
        local place = resolve_links(source)
        local shown = place == "/" or own_trees[place:match("^/([^/]*)")]
        for parent in (place .. "/"):gmatch("()/") do shown = shown or taken[place:sub(1, parent - 1)] end
        if not shown then bind(place) end
    end
end

-- Return the state of the user's packages for this image. Without HOME, wrappers know.
function files.own_packages(own)
    local chosen = os.getenv("HPCMOD_PACKAGES") or ""
    if chosen == "none" then return end
    local name, state = chosen:match("^(.*)@(%d+)$")
    name = name or chosen
    if name == "" then name = "default" end
    local is_path = name:sub(1, 1) == "/"
    local place = name .. "/" .. own.name
    if not is_path then
        local base = os.getenv("HPCMOD_PACKAGES_DIR") or ""
        if base:sub(1, 1) ~= "/" then base = (os.getenv("HOME") or "") .. "/.local/share/hpcmod" end
        place = base .. "/packages/" .. own.name .. "/" .. name
    end
    local file = place .. "/active-" .. own.fits .. ".squashfs"
    if state then file = place .. "/states/" .. state .. "-" .. own.fits .. ".squashfs" end
    if is_file(file) then return file end
    if mode() ~= "load" then return end
    local fails, yours = ", so no container will start; see: hpcmod packages ", "your packages `" .. name .. "` "
    local known, entries, directory = pcall(lfs.dir, place)
    if not known or not exists(place .. "/states") then
        if not is_path and chosen ~= "" and os.getenv("HOME") then
            message("you have no set of packages `" .. name:gsub("%c", "?") .. "`" .. fails .. own.name)
        end
        return
    end
    local has_other = false
    for entry in entries, directory do has_other = has_other or entry:find("^active%-") ~= nil end
    if lfs.symlinkattributes(file, "mode") then
        message("the file of " .. yours .. "is missing, so no container will start: " .. file)
    elseif state then
        message(yours .. "have no state " .. state .. " that fits this image" .. fails .. "--history " .. own.name)
    elseif has_other then
        message(yours .. "were made for another image, so they are off; to make them fit: hpcmod rebase " .. own.name)
    end
end

-- Show the notices of the catalogues about the image, if there are any.
function files.show_notices()
    for _, place in ipairs(container.notices) do
        if is_file(place) then
            return pcall(loadfile(container.root .. "/libexec/notices.lua"), container, files.newest, is_file, message)
        end
    end
end

return files
