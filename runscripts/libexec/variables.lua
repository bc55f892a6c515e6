-- Set variables so that unloading gives each the value that the user had before.
-- Lmod can only unset variables while it unloads, so _HPCMOD_USER_<name> keeps that value, written as in a URL because older
-- Lmods lose backslashes and line ends, and the shell sets it again after Lmod.
local memory = ... -- name of the variable that says what this module has set, as words NAME=STATE; wrappers read it too
local unloading = mode() == "unload"
local shell = myShellName and myShellName() or "bash"
local state, variables = {}, {}
for name, word in (unloading and os.getenv(memory) or ""):gmatch("([%w_]+)=(%w+)") do state[name] = word end
variables.state = state

local function encoded(text, format)
    return (text:gsub("[^%w_ /.,:=@+-]", function(byte) return format:format(byte:byte()) end))
end

-- For csh, which expands braces of what Lmod prints, printf writes the value; it cannot have line ends.
local function set_in_csh(name, value)
    return "setenv " .. name .. " \"`printf -- '" .. encoded(value:gsub("\n", " "), "\\%03o") .. "'`\""
end

local in_csh = mode() == "load" and shell:find("^t?csh$")
local function put(name, value)
    local line = in_csh and value:find("{", 1, true) and set_in_csh(name, value)
    if line then return execute{cmd = line, modeA = {"load"}} end
    -- Lmod before 8.1.10 drops backslashes.
    local drops = value:find("\\", 1, true) and convertToCanonical(LmodVersion()) < convertToCanonical("8.1.10")
    setenv(name, drops and value:gsub("\\", "\\\\") or value)
end

-- Let the shell set a variable after Lmod, if another has the expected value by then ("": unset).
function variables.set_by_shell(name, value, guard, expected, saved)
    local quoted, line = "'" .. value:gsub("'", "'\\''") .. "'", nil
    if shell:find("csh$") then
        local test = "if (\"`printenv " .. guard .. "`\" == '" .. expected .. "') "
        line = test .. set_in_csh(name, value) .. "; " .. test .. "unsetenv " .. saved
    elseif shell == "fish" then
        quoted = "'" .. value:gsub("\\", "\\\\"):gsub("'", "\\'") .. "'"
        line = "test \"$" .. guard .. "\" = '" .. expected .. "'; and set -gx " .. name .. " " .. quoted .. "; and set -e " .. saved
    else
        quoted = quoted:gsub("\n", "'$'\\n''") -- older Lmods would print a blank
        line = "[ \"${" .. guard .. "-}\" != '" .. expected .. "' ] || { export " .. name .. "=" .. quoted .. "; unset " .. saved .. "; }"
    end
    execute{cmd = line, modeA = {"unload"}}
end

-- Return the value before any container was loaded; nil if it was unset. After an unload in the same run, as in a swap,
-- the shell has not yet set it again.
function variables.users(name)
    local value, saved = os.getenv(name), os.getenv("_HPCMOD_USER_" .. name)
    if saved and (value == nil or state.ADDITIONAL or unloading) then
        return (saved:gsub("%%(%x%x)", function(code) return string.char(tonumber(code, 16)) end))
    end
    return not unloading and value or nil
end

-- Set a variable while the module is loaded, whatever the user has. `guard` tells the shell at unload whether another
-- module has set it since: it is unset if none has.
function variables.override(name, value, guard)
    local before = variables.users(name)
    put(name, value)
    if before and not unloading then setenv("_HPCMOD_USER_" .. name, encoded(before, "%%%02X")) end
    if before and unloading then variables.set_by_shell(name, before, guard, "", "_HPCMOD_USER_" .. name) end
end

-- Set variables unless the user has one of them, and remember the first name; unset them if they still have our value.
-- Return whether they were free.
function variables.set_default(names, value)
    local free = not state.ADDITIONAL and not unloading
    for _, name in ipairs(names) do free = free and os.getenv(name) == nil end
    if free then state[names[1]] = "ours" end
    if not state[names[1]] then return false end
    for _, name in ipairs(names) do
        if free or os.getenv(name) == value then put(name, value) end
    end
    return free
end

-- Split a list into its elements; `\,` does not end an element, and options of a bind are separated by commas too.
function variables.split(text, separator)
    local elements = {}
    for element in (text or ""):gsub("\\" .. separator, "\1"):gmatch("[^" .. separator .. "]+") do
        local option = element == "ro" or element == "rw" or element:find("^image%-src=") or element:find("^id=")
        element = element:gsub("\1", "\\" .. separator)
        if separator == "," and option and #elements > 0 then
            elements[#elements] = elements[#elements] .. "," .. element
        else
            elements[#elements + 1] = element
        end
    end
    return elements
end

-- Set lists to a value with our entries among the user's. At unload, a list that the user has changed meanwhile loses only
-- our entries.
function variables.set_list(names, value, ours, separator, guard)
    local note = memory .. "_" .. names[1]
    value = unloading and os.getenv(note) or value
    for _, name in ipairs(names) do
        if unloading and os.getenv(name) ~= value then
            for _, entry in ipairs(ours) do prepend_path(name, entry, separator) end
            if os.getenv("_HPCMOD_USER_" .. name) then setenv("_HPCMOD_USER_" .. name, "") end
        else
            variables.override(name, value, guard)
        end
    end
    put(note, value)
end

-- Remember for unloading what was set.
function variables.remember()
    local words = {}
    for name, word in pairs(state) do words[#words + 1] = name .. "=" .. word end
    table.sort(words)
    setenv(memory, table.concat(words, " "))
end

return variables
