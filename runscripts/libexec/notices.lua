-- Show the notices of the catalogues about the module's image, each once per shell. What these files say is only ever shown as
-- text, or ignored; hpcmod.catalogue.text.notice defines their format.
local container, newest, is_file, message = ...
local HEAD, LIMIT, MOST_STARS = "hpcmod-notices 1\n", 65536, 3

local function matches(text, pattern)
    local _, stars = pattern:gsub("%*", "")
    local form = pattern:gsub("[^%w*?]", "%%%0"):gsub("%*", ".*"):gsub("%?", ".")
    return stars <= MOST_STARS and text:find("^" .. form .. "$") ~= nil
end
-- Return a version as a string that sorts correctly; 1.22.0 equals 1.22.
local function sort_key(version)
    local key = version:gsub("%d+", function(digits) return string.rep("0", 12 - #digits) .. digits end)
    while key:find("%.000000000000$") do key = key:sub(1, -14) end
    return key
end

local function on_host(rest)
    local bounds, path = rest:match("^(%S+) (/.*)$")
    local pattern = (path or ""):gsub("{version}", "*")
    local _, stars = pattern:gsub("%*", "")
    local found = path and stars <= MOST_STARS and newest(pattern)
    if not found or bounds == "any" then return found end
    local before = path:match("^(.-){version}") or path
    local _, depth = before:gsub("/", "")
    local part = found:match("^" .. string.rep("/[^/]*", depth - 1) .. "/([^/]*)") or ""
    local version = part:match("%d[%d.]*%d") or part:match("%d")
    local all = version and bounds:find("^[<>=%d.,]+$") ~= nil
    for operator, limit in (all and bounds or ""):gmatch("([<>=]+)([%d.]+)") do
        local ours, theirs = sort_key(version), sort_key(limit)
        local known = {
            [">="] = ours >= theirs, ["<="] = ours <= theirs, ["=="] = ours == theirs,
            [">"] = ours > theirs, ["<"] = ours < theirs,
        }
        all = all and known[operator]
    end
    return all
end

local conditions = {
    module = function(rest) return rest == container.module end,
    ["until"] = function(rest) return os.time() < (tonumber(rest) or 0) end,
    host = on_host,
    variable = function(rest)
        local name, pattern = rest:match("^([%w_]+) ?(.*)$")
        local value = name and os.getenv(name)
        return value and matches(value, pattern)
    end,
    ["no-variable"] = function(rest) return rest:find("^[%w_]+$") and not os.getenv(rest) end,
}

-- Replace control characters, including two-byte and incomplete ones, so that no text can control the terminal.
local function visible(text)
    local plain = text:gsub("[%z\1-\9\11-\31\127]", "?")
    return (plain:gsub("([\192-\255]?)([\128-\191]+)", function(first, rest)
        local length = first == "" and 0 or first < "\224" and 1 or first < "\240" and 2 or 3
        if #rest ~= length or first == "\194" and rest < "\160" then return "?" end
    end))
end

local function read_notices(place)
    local file = is_file(place) and io.open(place)
    local text = file and file:read(LIMIT + 1) or ""
    if file then file:close() end
    local notices, notice = {}, nil
    if #text > LIMIT or text:sub(1, #HEAD) ~= HEAD then return notices end
    for line in text:sub(#HEAD + 1):gmatch("([^\n]*)\n") do
        local word, rest = line:match("^([%w-]+) ?(.*)$")
        if word == "notice" then
            notice = {name = rest:match("^%x+$"), holds = true, lines = {}}
            notices[#notices + 1] = notice
        elseif notice and word == "say" then
            notice.lines[#notice.lines + 1] = visible(rest)
        elseif notice then
            notice.holds = notice.holds and conditions[word] and conditions[word](rest)
        end
    end
    return notices
end

local shown = os.getenv("HPCMOD_NOTICED") or ""
local before = shown
for _, place in ipairs(container.notices) do
    for _, notice in ipairs(read_notices(place)) do
        local known = (" " .. shown .. " "):find(" " .. (notice.name or "all") .. " ", 1, true)
        if notice.name and notice.holds and not known and not (" " .. shown .. " "):find(" all ", 1, true) then
            message(table.concat(notice.lines, "\n"))
            shown = shown == "" and notice.name or shown .. " " .. notice.name
        end
    end
end
-- never unset: the user of this shell has seen them, whatever is loaded
if shown ~= before then setenv("HPCMOD_NOTICED", shown) end
