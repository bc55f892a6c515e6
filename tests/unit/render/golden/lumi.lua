help("Description\n===========\nPyTorch 2.7.1 for AMD GPUs\n\nUse\n===\nsingularity exec $SIF conda-python-simple ARGS\n    one process with the image's Python\nsrun ... singularity exec $SIF conda-python-distributed ARGS\n    one rank of a distributed job\nstart-shell [COMMAND ARGS]\n    a shell in the container, or one command\n$SIF, $SIFPYTORCH\n    the image\n$RUNSCRIPTS, $RUNSCRIPTSPYTORCH\n    the run scripts; inside the container: /runscripts\n\nCommands\n========\npip, python, python3.12, torchrun, start-shell\n\nImage\n=====\nThe first of:\n/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\n/appl/local/containers/easybuild-sif-images/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\n/appl/local/containers/sif-images/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\n/appl/local/laifs/containers/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\n\nPython packages in the image\n============================\nnumpy 2.1.0, torch 2.7.1+rocm6.2.4, torchvision 0.22.1\n\nImage labels\n============\norg.opencontainers.image.title: PyTorch for LUMI\n\nMore information\n================\nhttps://pytorch.org/")
whatis("Description: PyTorch 2.7.1 for AMD GPUs")
whatis("Homepage: https://pytorch.org/")
whatis("Packages: numpy/2.1.0, torch/2.7.1+rocm6.2.4, torchvision/0.22.1")
if LmodVersion and convertToCanonical(LmodVersion()) >= convertToCanonical("8.2.8") then
    extensions("numpy/2.1.0,torch/2.7.1+rocm6.2.4,torchvision/0.22.1")
end

local root = "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity"

conflict("PyTorch")

-- Written by hpcmod. Self-contained: it starts no program and calls no site-specific function.
local unloading = mode() == "unload"
local memory = "_HPCMOD_PYTORCH"

local this_module = "ai_container PyTorch/2.7.1-rocm-6.2.4-singularity"
-- Only one container with a whole Python environment, unless HPCMOD_SEVERAL=1: their commands have the same names.
local several = unloading and string.find(os.getenv(memory) or "", "SEVERAL=", 1, true)
    or not unloading and os.getenv("HPCMOD_SEVERAL") == "1"
if not several then family("ai_container") end
if mode() == "spider" then return end -- `avail` and `spider` read all modules and need no variables
local loaded_module = not several and os.getenv("_HPCMOD_PYTHON")
if mode() == "load" and loaded_module and loaded_module ~= this_module then
    local its_family, its_name = string.match(loaded_module, "^(.*) (%S+)$")
    -- To swap modules of a family, Lmod loads the new one, unloads both, and loads the new one again. The first time, the
    -- variables still belong to the other module: do nothing, and undo nothing.
    if its_family == "ai_container" then return end
    LmodError("PyTorch/2.7.1-rocm-6.2.4-singularity" .. ": the container module " .. (its_name or loaded_module) .. " is loaded; unload it first")
end
if unloading and not os.getenv(memory) then return end

local state = {}
for name, word in string.gmatch(unloading and os.getenv(memory) or "", "([%w_]+)=(%w+)") do
    state[name] = word
end

-- Restore a variable that was set but empty. Lmod cannot set variables while unloading, so the shell does, unless another
-- module has set it by then. Modules loaded later in the same run, as in a swap, find it in this table, which is shared.
hpcmod_empty = hpcmod_empty or {}
local function restore_empty(name)
    hpcmod_empty[name] = true
    local shell = myShellName and myShellName() or "bash"
    local command = "[ -n \"${" .. name .. "+set}\" ] || export " .. name .. "="
    if shell == "csh" or shell == "tcsh" then command = "if (! $?" .. name .. ") setenv " .. name .. " ''" end
    if shell == "fish" then command = "set -q " .. name .. "; or set -gx " .. name .. " ''" end
    execute{cmd = command, modeA = {"unload"}}
end

-- Lmod puts the user's value at the bottom of a variable's stack, but does so only once per run: after the stack is
-- emptied, a swap or reload would lose that value. So push it here.
local function start_stack(name, stack)
    pushenv(name, os.getenv(name))
    setenv(stack, (string.gsub(os.getenv(stack), ":.*", "")))
end

-- Set a variable while the module is loaded; unloading restores the user's value exactly.
local function override(name, value)
    local stack = "__LMOD_STACK_" .. name
    if not unloading then
        local had = os.getenv(name) or hpcmod_empty[name] and "" or nil
        state[name] = had == nil and "unset" or had == "" and "empty" or "value"
        if mode() == "load" and state[name] == "value" and not os.getenv(stack) then start_stack(name, stack) end
        if state[name] == "value" then pushenv(name, value) else setenv(name, value) end
    elseif state[name] == "value" then
        local _, depth = string.gsub(os.getenv(stack) or "", ":", "")
        pushenv(name, value)
        if depth < 2 then setenv(stack, "") end
    elseif state[name] then
        setenv(name, value)
        if state[name] == "empty" then restore_empty(name) end
    end
end

-- Set variables unless the user has set one of them; unload them only if they still have our value.
local function set_default(names, value)
    if state.ADDITIONAL then return end
    local free = true
    for _, name in ipairs(names) do free = free and os.getenv(name) == nil end
    for _, name in ipairs(names) do
        if not unloading and free then state[name] = "ours" end
        local unchanged = not unloading or os.getenv(name) == value
        if state[name] == "ours" and unchanged then setenv(name, value) end
    end
end

-- Prepend entries to a pair of lists and keep the two equal: if they differ, Apptainer ignores one of them.
local function prepend(names, entries, separator)
    if state.ADDITIONAL then return end
    local value = table.concat(entries, separator)
    local note = memory .. "_" .. names[1]
    local set = unloading and os.getenv(note) or value
    for _, name in ipairs(names) do
        if unloading and os.getenv(name) ~= set then
            for _, entry in ipairs(entries) do prepend_path(name, entry, separator) end
        else
            override(name, value)
        end
    end
    setenv(note, value)
end

-- SIF, RUNSCRIPTS and CONTAINERROOT belong to the container that was loaded last. _HPCMOD_ORDER lists all, the last first.
local order = {} -- the other containers
for mark in string.gmatch(os.getenv("_HPCMOD_ORDER") or "", "[^:]+") do
    if mark ~= "PYTORCH" then order[#order + 1] = mark end
end
local is_last = not unloading or string.match(os.getenv("_HPCMOD_ORDER") or "", "^[^:]*") == "PYTORCH"
prepend_path("_HPCMOD_ORDER", "PYTORCH")

-- All other variables, such as binds, belong to the first: wrappers of the others replace them when they start.
if mode() == "load" and os.getenv("_HPCMOD_CONTAINER") then state.ADDITIONAL = "yes" end
if not state.ADDITIONAL then setenv("_HPCMOD_CONTAINER", this_module) end

-- Lmod keeps the values that a variable had on a stack. Values of containers that were unloaded meanwhile stay there until
-- the one above them goes.
local function share(name, value)
    local stack = "__LMOD_STACK_" .. name
    if not unloading then
        if #order == 0 then return override(name, value) end
        -- the state before the first container
        state[name] = string.match(" " .. (os.getenv("_HPCMOD_" .. order[1]) or ""), " " .. name .. "=(%w+)") or "unset"
        if mode() == "load" and not os.getenv(stack) then start_stack(name, stack) end
        return pushenv(name, value)
    end
    if not is_last then return end
    local function has_more() return string.find(os.getenv(stack) or "", ":", 1, true) end
    if #order > 0 then
        local wanted = os.getenv(name .. order[1])
        if name == "CONTAINERROOT" then wanted = string.gsub(os.getenv("RUNSCRIPTS" .. order[1]) or "", "/runscripts$", "") end
        while has_more() and os.getenv(name) ~= wanted do pushenv(name, value) end
        return
    end
    if state[name] == "value" then
        while has_more() do pushenv(name, value) end
    else
        setenv(name, value)
        if state[name] == "empty" then restore_empty(name) end
    end
    setenv(stack, "")
end

if several then state.SEVERAL = "yes" else setenv("_HPCMOD_PYTHON", this_module) end

-- Split a list into its elements; `\,` does not end an element, and options of a bind are separated by commas too.
local function split(text, separator)
    local elements = {}
    local hidden = string.gsub(text or "", "\\" .. separator, "\1")
    for element in string.gmatch(hidden, "[^" .. separator .. "]+") do
        local option = element == "ro" or element == "rw" or string.find(element, "^image%-src=") or string.find(element, "^id=")
        element = string.gsub(element, "\1", "\\" .. separator)
        if separator == "," and option and #elements > 0 then
            elements[#elements] = elements[#elements] .. "," .. element
        else
            elements[#elements + 1] = element
        end
    end
    return elements
end

local function destination(bind)
    local source, rest = string.match((string.gsub(bind, "\\:", "\1")), "^([^:]*):?([^:]*)")
    local place = rest ~= "" and rest or source
    return #place > 1 and (string.gsub(place, "/+$", "")) or place
end

-- Merge the lists of both names: each destination once, without those in taken.
local function union(names, separator, key, taken)
    local elements = {}
    for _, name in ipairs(names) do
        for _, element in ipairs(split(os.getenv(name), separator)) do
            if not taken[key(element)] then elements[#elements + 1] = element end
            taken[key(element)] = true
        end
    end
    return elements
end

-- Lmod's isFile is true for a dangling symbolic link.
local function exists(path)
    if lfs then return lfs.attributes(path, "mode") ~= nil end
    return isFile(path) or isDir(path)
end

-- The image: the user's private copy, or the site's.
local places = { "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif", "/appl/local/containers/easybuild-sif-images/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif", "/appl/local/containers/sif-images/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif", "/appl/local/laifs/containers/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif" }
local sif
for _, place in ipairs(places) do
    if not sif and isFile(place) and exists(place) then sif = place end
end
if mode() == "load" and not sif then
    LmodError("PyTorch/2.7.1-rocm-6.2.4-singularity: its image was not found in any of these locations:\n  /project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\n  /appl/local/containers/easybuild-sif-images/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\n  /appl/local/containers/sif-images/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\n  /appl/local/laifs/containers/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\nReinstall it with: eb PyTorch-2.7.1-rocm-6.2.4-singularity.eb --rebuild")
end
share("SIF", sif or places[1])
override("SIFPYTORCH", sif or places[1])
share("RUNSCRIPTS", "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/runscripts")
override("RUNSCRIPTSPYTORCH", "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/runscripts")
share("CONTAINERROOT", "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity")
set_default({ "SINGULARITYENV_VIRTUAL_ENV", "APPTAINERENV_VIRTUAL_ENV" }, "/user-software/venv/pytorch")
set_default({ "SINGULARITYENV_WITH_VENV", "APPTAINERENV_WITH_VENV" }, ". /runscripts/init-conda-venv")
set_default({ "SINGULARITYENV_WITH_CONDA_VENV", "APPTAINERENV_WITH_CONDA_VENV" }, ". /runscripts/init-conda-venv")
set_default({ "NCCL_SOCKET_IFNAME" }, "hsn")
set_default({ "NCCL_NET_GDR_LEVEL" }, "3")
set_default({ "FI_MR_CACHE_MONITOR" }, "userfaultfd")

-- Keep the host's Python environment out, except for variables listed in HPCMOD_KEEP_ENV: some always, others only with the
-- value from before loading, which a variable remembers. This table is shared between modules, so it survives a reload.
hpcmod_before = hpcmod_before or {}
local kept = " " .. (os.getenv("HPCMOD_KEEP_ENV") or "") .. " "
local dropped, dropped_names = {}, {}

local function find_before(name, kind)
    if hpcmod_before[name] then return hpcmod_before[name] end
    if kind == "before" then return os.getenv(name) or "" end
    local place = (os.getenv("PYTHONUSERBASE") or (os.getenv("HOME") or "") .. "/.local") .. "/" .. "lib/python3.12/site-packages"
    return isDir(place) and place or ""
end

local function keep_out(name, value, kind)
    local names, note = {"SINGULARITYENV_" .. name, "APPTAINERENV_" .. name}, memory .. "_" .. name
    if kind == "always" then return set_default(names, value) end
    local before
    if unloading then
        before = os.getenv(note) or ""
        hpcmod_before[name] = before
    else
        before = find_before(name, kind)
    end
    if before == "" then return end
    if not unloading and not state.ADDITIONAL and not hpcmod_before[name] and not os.getenv(names[1]) and not os.getenv(names[2]) then
        dropped[#dropped + 1] = kind == "before" and name .. "=" .. before or before
        dropped_names[#dropped_names + 1] = name
    end
    set_default(names, value)
    setenv(note, before)
end

for _, item in ipairs{ { "PYTHONPATH", "", "before" }, { "PYTHONHOME", "", "before" }, { "PYTHONSTARTUP", "", "before" }, { "LD_PRELOAD", "", "before" }, { "CONDA_PREFIX", "", "always" }, { "CONDA_DEFAULT_ENV", "", "always" }, { "CONDA_EXE", "", "always" }, { "CONDA_PYTHON_EXE", "", "always" }, { "CONDA_SHLVL", "", "always" }, { "CONDA_PROMPT_MODIFIER", "", "always" }, { "_CE_CONDA", "", "always" }, { "_CE_M", "", "always" } } do
    if unloading or not string.find(kept, " " .. item[1] .. " ", 1, true) then keep_out(item[1], item[2], item[3]) end
end
if mode() == "load" and #dropped > 0 then
    LmodMessage("PyTorch/2.7.1-rocm-6.2.4-singularity" .. ": kept out of the container, because it was there before: " .. table.concat(dropped, ", ")
        .. ". To use it: export HPCMOD_KEEP_ENV='" .. table.concat(dropped_names, " ") .. "' and load the module again")
end

-- Binds: Apptainer does not start if a source is missing, so bind only those that exist here. The user's come last and win.
-- Source, destination (may be empty), options, required or not.
local candidates = {
    { { "/var/spool/slurmd", "", "", true } },
    { { "/opt/cray", "", "", true } },
    { { "/usr/lib64/libcxi.so.1", "", "", true } },
    { { "/pfs", "", "", false } },
    { { "/scratch", "", "", false } },
    { { "/projappl", "", "", false } },
    { { "/project", "", "", false } },
    { { "/flash", "", "", false } },
    { { "/appl", "", "", false } },
    { { "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/runscripts", "/runscripts", "", false } },
    { { "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/user-software.squashfs", "/user-software", "image-src=/,ro", false }, { "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/user-software", "/user-software", "", false } },
}

-- Your own packages: the active state of a set that fits this image, chosen by HPCMOD_PACKAGES.
local function own_packages()
    local chosen = os.getenv("HPCMOD_PACKAGES") or ""
    if chosen == "none" then return end
    local name, state = string.match(chosen, "^(.*)@(%d+)$")
    name = name or chosen
    if name == "" then name = "default" end
    local shared = string.sub(name, 1, 1) == "/"
    local place = name
    if not shared then
        local base = os.getenv("HPCMOD_PACKAGES_DIR") or ""
        if string.sub(base, 1, 1) ~= "/" then base = (os.getenv("HOME") or "") .. "/.local/share/hpcmod" end
        place = base .. "/packages"
    end
    place = place .. "/" .. "PyTorch" .. (shared and "" or "/" .. name)
    local found = place .. "/" .. "active-cp312-555555555555.squashfs"
    if state then found = place .. "/states/" .. state .. "-" .. "cp312-555555555555.squashfs" end
    if exists(found) then return found end
    if mode() ~= "load" or not lfs then return end
    local known, entries, directory = pcall(lfs.dir, place)
    if not known then
        if not shared and chosen ~= "" then
            LmodMessage("PyTorch/2.7.1-rocm-6.2.4-singularity" .. ": you have no set of packages `" .. name .. "`; see: hpcmod packages " .. "PyTorch")
        end
        return
    end
    local other = false
    for entry in entries, directory do other = other or string.find(entry, "^active%-") ~= nil end
    if state then
        LmodMessage("PyTorch/2.7.1-rocm-6.2.4-singularity" .. ": state " .. state .. " of your packages `" .. name .. "` does not fit this image, so they are off; see: hpcmod packages --history " .. "PyTorch")
    elseif other then
        LmodMessage("PyTorch/2.7.1-rocm-6.2.4-singularity" .. ": your packages `" .. name .. "` were made for another image, so they are off; to make them fit: hpcmod rebase " .. "PyTorch")
    end
end

if mode() == "load" or mode() == "show" then
    local found = own_packages()
    if found then table.insert(candidates[#candidates], 1, { found, "/user-software", "image-src=/,ro", false }) end
end

-- Resolve the symbolic links in a path.
local function real(path)
    local done, todo, left = "", path, lfs and 40 or 0
    while left > 0 and string.find(todo, "[^/]") do
        local part, rest = string.match(todo, "^/*([^/]+)(.*)$")
        local known, target = pcall(lfs.symlinkattributes, done .. "/" .. part, "target")
        if known and type(target) == "string" then
            left = left - 1
            if string.sub(target, 1, 1) == "/" then done = "" end
            todo = target .. rest
        else
            if part == ".." then done = string.gsub(done, "/[^/]*$", "") elseif part ~= "." then done = done .. "/" .. part end
            todo = rest
        end
    end
    return left > 0 and done or path
end

local bind_names = {"SINGULARITY_BIND", "APPTAINER_BIND"}
local bindpath_names = {"SINGULARITY_BINDPATH", "APPTAINER_BINDPATH"}
local ours, missing, unbindable, linked = {}, {}, {}, {}
local taken = {}

local function escaped(path) return (string.gsub(path, "[:,]", "\\%0")) end

local function add_bind(source, place, options)
    if string.find(source, "[%c]") or string.find(source .. ":", "\\[:,]") then
        unbindable[#unbindable + 1] = string.gsub(source, "%c", "?")
        return
    end
    local text = escaped(source)
    if place ~= "" or options ~= "" then text = text .. ":" .. escaped(place ~= "" and place or source) end
    if options ~= "" then text = text .. ":" .. options end
    if taken[destination(text)] then return end
    taken[destination(text)] = true
    ours[#ours + 1] = text
    if place == "" and isDir(source) then linked[#linked + 1] = source end
end

-- From each group, choose the first that exists here, unless the user has bound its destination.
local function choose()
    for _, group in ipairs(candidates) do
        local found
        for _, bind in ipairs(group) do
            local source = bind[1]
            if not found and exists(source) then
                found = true
                add_bind(source, bind[2], bind[3])
            end
        end
        if not found and group[1][4] then missing[#missing + 1] = group[1][1] end
    end
end

-- Bind the target of a symbolic link too, so that links below it resolve, unless that would hide the image's own files.
local own_trees = {usr = true, bin = true, sbin = true, lib = true, lib64 = true, etc = true, dev = true, proc = true, sys = true}
local function follow_links()
    for _, source in ipairs(linked) do
        local place = real(source)
        local shown = place == "/" or own_trees[string.match(place, "^/([^/]*)")]
        for parent in string.gmatch(place .. "/", "()/") do
            shown = shown or taken[string.sub(place, 1, parent - 1)]
        end
        if not shown then add_bind(place, "", "") end
    end
end

if unloading then
    for i, bind in ipairs(split(os.getenv(memory .. "_" .. bindpath_names[1]), ",")) do
        if i <= tonumber(state.BINDS or 0) then ours[i] = bind end
    end
end
local bind_user = unloading and {} or union(bind_names, ",", destination, taken)
local bindpath_user = unloading and {} or union(bindpath_names, ",", destination, taken)
if (mode() == "load" or mode() == "show") and not state.ADDITIONAL then
    choose()
    local chosen = ours
    ours = {}
    follow_links() -- these first, so that they do not hide other binds inside them
    for _, bind in ipairs(chosen) do ours[#ours + 1] = bind end
    state.BINDS = tostring(#ours)
end
if mode() == "load" and #missing > 0 then
    LmodMessage("PyTorch/2.7.1-rocm-6.2.4-singularity" .. ": not bound, missing on this node: " .. table.concat(missing, ", "))
end
if mode() == "load" and #unbindable > 0 then
    LmodMessage("PyTorch/2.7.1-rocm-6.2.4-singularity" .. ": not bound, unsupported characters in the path: " .. table.concat(unbindable, ", "))
end
if #missing > 0 or os.getenv(memory .. "_MISSING") then setenv(memory .. "_MISSING", table.concat(missing, ",")) end
-- Also in SINGULARITY_BIND, for scripts that read or extend it; the module's `singularity` passes each bind only once.
for i, bind in ipairs(ours) do table.insert(bind_user, i, bind) end
for _, bind in ipairs(bindpath_user) do ours[#ours + 1] = bind end
prepend(bindpath_names, ours, ",")
-- Apptainer warns if only one of a pair is set, even if empty.
local paired = state["SINGULARITY_BIND"]
for _, name in ipairs(bind_names) do
    paired = paired or not unloading and (os.getenv(name) or hpcmod_empty[name])
end
if paired or not unloading then prepend(bind_names, bind_user, ",") end

local path_names = {"SINGULARITYENV_PREPEND_PATH", "APPTAINERENV_PREPEND_PATH"}
local path = { "/runscripts", "/user-software/venv/pytorch/bin", "/opt/miniconda3/envs/pytorch/bin" }
if not unloading then state.PATHS = tostring(#path) end
local path_user = unloading and {} or union(path_names, ":", function(entry) return entry end, {})
for _, entry in ipairs(path_user) do path[#path + 1] = entry end
prepend(path_names, path, ":")

local words = {}
for name, word in pairs(state) do words[#words + 1] = name .. "=" .. word end
table.sort(words)
setenv(memory, table.concat(words, " "))
