-- What a container module does when it is loaded, unloaded or shown. Its modulefile is data, and at its
-- end loads this file and calls it with that data. Unloading gives each variable the value that the user had before.
-- Starts no program, and calls no function of a site.
local container = ...
local loading, unloading = mode() == "load", mode() == "unload"
local mark = container.mark
local memory = "_HPCMOD_" .. mark
local this_module = container.family .. " " .. container.module

local function message(text) LmodMessage(container.module .. ": " .. text) end
local function refuse(text) LmodError(container.module .. ": " .. text) end
local function exists(path) return lfs.attributes(path, "mode") ~= nil end
local function is_file(path) return lfs.attributes(path, "mode") == "file" end -- isFile accepts a pipe
local function extend(list, more) for _, item in ipairs(more) do list[#list + 1] = item end end

local variables = loadfile(container.root .. "/libexec/variables.lua")(memory)
local state, users, override, set_default = variables.state, variables.users, variables.override, variables.set_default

-- Which containers are loaded

-- Only one container with a whole Python environment, unless HPCMOD_SEVERAL=1: their commands have the same names.
if container.python then
    local several = state.SEVERAL or not unloading and os.getenv("HPCMOD_SEVERAL") == "1"
    if not several then family(container.family) end
    local other = not several and os.getenv("_HPCMOD_PYTHON")
    if loading and other and other ~= this_module then
        local its_family, its_module = other:match("^(.*) (%S+)$")
        -- To swap modules of a family, Lmod loads the new one, unloads both, and loads the new one again. The first time,
        -- the variables still belong to the other module: do nothing, undo nothing (9.2.7: also then).
        if its_family == container.family and isloaded(its_module) then return end
        refuse("the container module " .. (its_module or other) .. " is loaded; unload it first")
    end
    if several then state.SEVERAL = "yes" end
end
if unloading and not os.getenv(memory) then return end
if container.python and not state.SEVERAL then setenv("_HPCMOD_PYTHON", this_module) end

-- SIF, RUNSCRIPTS and CONTAINERROOT are of the container loaded last, all else is of the first; wrappers of the others
-- replace it. _HPCMOD_ORDER_PATH: the last first; in fish, Lmod 9 joins only lists named ...PATH by colons.
local order, others = os.getenv("_HPCMOD_ORDER_PATH") or "", {}
local is_last = not unloading or order:match("^[^:]*") == mark
for name in order:gmatch("[^:]+") do
    if name ~= mark then others[#others + 1] = name end
end
prepend_path("_HPCMOD_ORDER_PATH", mark)
if loading and os.getenv("_HPCMOD_CONTAINER") then state.ADDITIONAL = "yes" end
local is_first = not state.ADDITIONAL
if is_first then setenv("_HPCMOD_CONTAINER", this_module) end

-- Image and variables

local function share(name, value)
    if unloading and not is_last then return end
    if not others[1] then return override(name, value, "_HPCMOD_ORDER_PATH") end
    setenv(name, value)
    if not unloading then return end
    local root = (os.getenv("RUNSCRIPTS" .. others[1]) or ""):gsub("/runscripts$", "")
    local theirs = name == "CONTAINERROOT" and root or os.getenv(name .. others[1]) or ""
    variables.set_by_shell(name, theirs, "_HPCMOD_ORDER_PATH", table.concat(others, ":"), "_HPCMOD_NOTHING")
end

local function set_default_inside(name, value)
    return set_default({ "SINGULARITYENV_" .. name, "APPTAINERENV_" .. name }, value)
end

local sif
for _, place in ipairs(container.image) do
    if not sif and is_file(place) then sif = place end
end
if loading and not sif then
    refuse("its image was not found in any of these locations:\n  " .. table.concat(container.image, "\n  ")
        .. "\nIf you have installed it: eb " .. container.easyconfig .. " --rebuild; else tell the support of your site")
end
sif = sif or container.image[1]
share("SIF", sif)
override("SIF" .. mark, sif, memory)
share("RUNSCRIPTS", container.root .. "/runscripts")
override("RUNSCRIPTS" .. mark, container.root .. "/runscripts", memory)
share("CONTAINERROOT", container.root)
for _, variable in ipairs(container.variables) do set_default({ variable[1] }, variable[2]) end
for _, variable in ipairs(container.in_container) do
    local is_passed = variable.host_wins and os.getenv(variable[1]) ~= nil
    if unloading or not is_passed then set_default_inside(variable[1], variable[2]) end
end

-- Keep the host's Python out, except for HPCMOD_KEEP_ENV: some variables always, others only if set now. What is there is
-- recorded.
local kept = " " .. (os.getenv("HPCMOD_KEEP_ENV") or "") .. " "
local dropped, dropped_names = {}, {}
for _, item in ipairs(container.keep_out) do
    local name, note = item[1], memory .. "_" .. item[1]
    local before = item.if_set and (os.getenv(name) or "")
    if item.directory then
        local place = (os.getenv("PYTHONUSERBASE") or (os.getenv("HOME") or "") .. "/.local") .. "/" .. item.directory
        before = isDir(place) and place
    end
    if unloading then before = os.getenv(note) or item.if_set and "" end
    if before ~= "" and (unloading or not kept:find(" " .. name .. " ", 1, true)) then
        local is_new = set_default_inside(name, item[2])
        if before then setenv(note, before) end
        if before and is_new then
            dropped[#dropped + 1] = item.if_set and name .. "=" .. before or before
            dropped_names[#dropped_names + 1] = name
        end
    end
end
if loading and #dropped > 0 then
    message("for programs of the host, so not used in the container: " .. table.concat(dropped, ", ")
        .. ". To use it: export HPCMOD_KEEP_ENV='" .. table.concat(dropped_names, " ") .. "' and load the module again")
end

-- Binds

local function destination(bind)
    local source, rest = bind:gsub("\\:", "\1"):match("^([^:]*):?([^:]*)")
    local place = rest ~= "" and rest or source
    return #place > 1 and (place:gsub("/+$", "")) or place
end

-- Return the user's entries of a pair of lists, each destination once, without those in taken.
local function users_entries(names, separator, key, taken)
    local entries = {}
    for _, name in ipairs(names) do
        for _, entry in ipairs(variables.split(users(name), separator)) do
            if not taken[key(entry)] then entries[#entries + 1] = entry end
            taken[key(entry)] = true
        end
    end
    return entries
end

-- Most modules, for most users, need nothing of files.lua.
local loaded
local function files()
    loaded = loaded or loadfile(container.root .. "/libexec/files.lua")(container, exists, is_file, message)
    return loaded
end
local function own_packages(own)
    local chosen = os.getenv("HPCMOD_PACKAGES") or os.getenv("HPCMOD_PACKAGES_DIR")
    if chosen or exists((os.getenv("HOME") or "") .. "/.local/share/hpcmod/packages/" .. own.name) then return files().own_packages(own) end
end

local ours, unbindable, linked, taken = {}, {}, {}, {}

local function add_bind(binds, source, place, options)
    if source:find("[%c]") or (source .. ":"):find("\\[:,]") then
        unbindable[#unbindable + 1] = source:gsub("%c", "?")
        return
    end
    local function escaped(path) return (path:gsub("[:,]", "\\%0")) end
    local text = escaped(source)
    if place or options then text = text .. ":" .. escaped(place or source) end
    if options then text = text .. ":" .. options end
    if taken[destination(text)] then return end
    taken[destination(text)] = true
    binds[#binds + 1] = text
    if not place and isDir(source) then linked[#linked + 1] = source end
end

-- Of each group, bind the first that exists here: Apptainer does not start if a source is missing.
local function choose(missing)
    local chosen = {}
    for _, group in ipairs(container.binds) do
        local candidates, done = type(group[1]) == "table" and group or { group }, false
        for _, bind in ipairs(candidates) do
            local source = bind.own_packages and own_packages(bind.own_packages) or bind.pattern and files().newest(bind[1]) or bind[1]
            if not done and source and exists(source) then
                done = true
                add_bind(chosen, source, bind.to, bind.options)
            end
        end
        if not done and candidates[1].required then missing[#missing + 1] = candidates[1][1] end
    end
    return chosen
end

-- Put our entries before the user's, in both lists: if they differ, Apptainer ignores one.
local function prepend(names, entries, separator, user)
    local all = {}
    extend(all, entries)
    extend(all, user)
    variables.set_list(names, table.concat(all, separator), entries, separator, "_HPCMOD_CONTAINER")
end

if is_first then
    local bind, bindpath = { "SINGULARITY_BIND", "APPTAINER_BIND" }, { "SINGULARITY_BINDPATH", "APPTAINER_BINDPATH" }
    local path = { "SINGULARITYENV_PREPEND_PATH", "APPTAINERENV_PREPEND_PATH" }
    -- Apptainer warns if only one of a pair is set, even if empty.
    local has_bind = container.sets_bind or users(bind[1]) or users(bind[2])
    if unloading then has_bind = os.getenv(memory .. "_" .. bind[1]) end
    local users_bind = users_entries(bind, ",", destination, taken)
    local users_bindpath = users_entries(bindpath, ",", destination, taken)
    local missing = {}
    if unloading then
        local all = variables.split(os.getenv(memory .. "_" .. bindpath[1]), ",")
        for i = 1, tonumber(state.BINDS or 0) do ours[i] = all[i] end
    else
        local chosen = choose(missing)
        if linked[1] then files().follow_links(linked, taken, function(target) add_bind(ours, target) end) end -- first, or they could hide others
        extend(ours, chosen)
        state.BINDS, state.PATHS = tostring(#ours), tostring(#container.path)
    end
    if loading and #missing > 0 then message("not bound, missing on this node: " .. table.concat(missing, ", ")) end
    if loading and #unbindable > 0 then message("not bound, unsupported characters in the path: " .. table.concat(unbindable, ", ")) end
    if #missing > 0 or os.getenv(memory .. "_MISSING") then setenv(memory .. "_MISSING", table.concat(missing, ",")) end
    prepend(bindpath, ours, ",", users_bindpath)
    -- Some scripts read or extend SINGULARITY_BIND; the module's `singularity` passes each bind only once.
    if has_bind then prepend(bind, container.sets_bind and ours or {}, ",", users_bind) end
    prepend(path, container.path, ":", users_entries(path, ":", tostring, {}))
end

variables.remember()
if loading and container.notices[1] then files().show_notices() end
