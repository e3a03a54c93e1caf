-- SPDX-License-Identifier: BSD-2-Clause
-- Copyright (c) 2026 the weir authors
--
-- Actions for HAProxy 2.4 and later, which ask a weir daemon over HTTP whether a request may pass:
--
--     http-request lua.weir POLICY KEY
--     http-request lua.weir-cost POLICY KEY COST
--     http-request lua.weir-keep POLICY KEY COST KEEP
--
-- An argument that begins with proc., sess., txn. or req. is the name of a variable; any other is
-- text. The actions set the variables txn.weir.*, as weir does over SPOE. docs/haproxy.md describes
-- both.
--
-- Variables of the environment, which `setenv` in the section `global` can set too:
--
--     WEIR_ADDRESS     the HTTP address of the daemon; default 127.0.0.1:8080
--     WEIR_TIMEOUT_MS  how long a request waits for each step of the daemon; default 50
--     WEIR_PASSWORD    the password of the daemon
--
-- With lua-load-per-thread, each thread has its own Lua state, and so its own connections.

local HOST, PORT = (os.getenv("WEIR_ADDRESS") or "127.0.0.1:8080"):match("^%[?(.-)%]?:(%d+)$")
local TIMEOUT_MS = tonumber(os.getenv("WEIR_TIMEOUT_MS") or "50")
local PASSWORD = os.getenv("WEIR_PASSWORD")
PASSWORD = PASSWORD ~= "" and PASSWORD or nil
local IDLE_MAX = 64 -- connections that are kept, at most this long:
local IDLE_S = 20
-- Bytes that HTTP needs: longer responses are errors.
local BODY_MAX, FIELDS_MAX = 65536, 64
-- Bytes that weir accepts as the target of a request.
local TARGET_MAX = 8192
-- After this many failures in a row, requests pass without asking, but for one each RETRY_MS.
local FAILURES_MAX, RETRY_MS = 3, 500
-- A kind of line that requests cause is logged at most once in this time.
local LOG_MS = 10000

if not HOST or not (HOST:find(":", 1, true) or HOST:match("^%d+%.%d+%.%d+%.%d+$"))
    or tonumber(PORT) < 1 or tonumber(PORT) > 65535 then
    error("WEIR_ADDRESS is not an IP address with a port, such as 127.0.0.1:8080")
end
if not TIMEOUT_MS or TIMEOUT_MS < 1 or TIMEOUT_MS > 60000 then
    error("WEIR_TIMEOUT_MS is not a number from 1 to 60000")
end
if PASSWORD and PASSWORD:find("%c") then
    error("WEIR_PASSWORD contains a control character")
end

local HEAD = " HTTP/1.1\r\nHost: localhost\r\n"
    .. (PASSWORD and "Authorization: Bearer " .. PASSWORD .. "\r\n" or "") .. "\r\n"

local idle = {} -- connections without a request
local failures, retry_at_ms = 0, 0

local function now_ms()
    local now = core.now()
    return now.sec * 1000 + now.usec // 1000
end

local logged_at_ms = {}

local function warn(kind, text)
    local now = now_ms()
    if now - (logged_at_ms[kind] or -LOG_MS) >= LOG_MS then
        logged_at_ms[kind] = now
        core.Warning("weir: " .. kind .. ", because " .. text)
    end
end

-- ---- a connection ------------------------------------------------------------------------------

-- A new socket has the timeout TIMEOUT_MS. Once it is kept, its timeout is too long to matter, and is
-- never lowered: then versions of HAProxy from 3.0 to 3.4 abort (issue 3442 of HAProxy).
local KEPT_S = IDLE_S + TIMEOUT_MS / 1000 + 1
-- When a kept socket is closed, in ms: because weir is late, or because it was idle for IDLE_S.
local close_at_ms = {}
-- The kept sockets that weir must answer on, in the order of their deadlines. One that has been
-- answered since has another time in close_at_ms.
local deadlines = {}
local is_watching = false

local function close(socket)
    close_at_ms[socket] = nil
    socket:close()
end

-- The deadlines before those of `deadlines`, and the first that may still come. Entries are not removed
-- one by one, since that would move all behind them.
local queue, at = {}, 1

-- Closes the sockets on which weir is late. Returns the ms until the next deadline.
local function close_late()
    local now = now_ms()
    while true do
        if at > #queue then
            if #deadlines == 0 then
                return TIMEOUT_MS
            end
            queue, at, deadlines = deadlines, 1, {}
        end
        local entry = queue[at]
        local is_open = entry.at_ms == close_at_ms[entry.socket]
        if is_open and entry.at_ms > now then
            return entry.at_ms - now
        end
        at = at + 1
        if is_open then
            close(entry.socket) -- what waits for it goes on
        end
    end
end

-- The first in the list is idle for the longest time.
local function close_idle()
    local now, socket = now_ms(), table.remove(idle, 1)
    while socket and close_at_ms[socket] <= now do
        close(socket)
        socket = table.remove(idle, 1)
    end
    if socket then
        table.insert(idle, 1, socket)
    end
end

-- A task that runs while sockets are kept. It sleeps for at most TIMEOUT_MS and IDLE_S, so no time
-- that is set meanwhile comes before it wakes up. HAProxy may run other code between any two statements.
local function watch()
    repeat
        while next(close_at_ms) do
            close_idle()
            core.msleep(math.ceil(math.min(close_late(), IDLE_S * 1000)))
        end
        is_watching = false
        local is_done = not next(close_at_ms) or is_watching
        is_watching = is_watching or not is_done
    until is_done
end

local function close_after(socket, ms)
    close_at_ms[socket] = now_ms() + ms
    if not is_watching then
        is_watching = true
        core.register_task(watch)
    end
end

local function set_deadline(socket)
    close_after(socket, TIMEOUT_MS)
    table.insert(deadlines, {socket = socket, at_ms = close_at_ms[socket]})
end

local function connect()
    local socket = core.tcp()
    socket:settimeout(TIMEOUT_MS / 1000)
    if socket:connect(HOST, tonumber(PORT)) then
        return socket
    end
    close(socket)
    return nil, "cannot connect to weir"
end

-- Reads the header fields of a response, with names as HAProxy's variables have them:
-- ratelimit_policy.
local function read_fields(socket)
    local fields = {}
    for _ = 1, FIELDS_MAX do
        local line = socket:receive("*l")
        if not line then
            return nil
        end
        line = line:gsub("\r$", "")
        if line == "" then
            return fields
        end
        local name, value = line:match("^([%w-]+):[ \t]*(.-)[ \t]*$")
        if not name then
            return nil
        end
        fields[name:lower():gsub("-", "_")] = value
    end
    return nil
end

-- Reads a response: its status, its header fields and its body. Returns nil if the connection ended
-- or timed out, and whether its first line had come.
local function read_response(socket)
    local line = socket:receive("*l")
    local status = line and line:match("^HTTP/1%.1 (%d%d%d) ")
    if not status then
        return nil, line ~= nil
    end
    local fields = read_fields(socket)
    local length = fields and tonumber(fields.content_length)
    if not length or length > BODY_MAX then
        return nil, true
    end
    local body = length == 0 and "" or socket:receive(length)
    if not body or #body ~= length then
        return nil, true
    end
    return {status = tonumber(status), fields = fields, body = body}
end

-- Sends a request. Returns its response, or nil and whether that had begun.
local function exchange(socket, request, is_new)
    local response, began
    if not is_new then
        set_deadline(socket)
    end
    if socket:send(request) then
        response, began = read_response(socket)
    end
    if response and (is_new or close_at_ms[socket]) and response.fields.connection ~= "close"
        and #idle < IDLE_MAX and pcall(socket.settimeout, socket, KEPT_S) then
        close_after(socket, IDLE_S * 1000)
        idle[#idle + 1] = socket
    else
        close(socket)
    end
    return response, began
end

-- Sends a request, if possible over a connection that is kept. The daemon may have closed that one
-- meanwhile: then, but not after a timeout, the request is sent again over a new one.
local function ask(request)
    local began_ms = now_ms()
    while #idle > 0 do
        local response, began = exchange(table.remove(idle), request)
        if response then
            return response
        elseif began or now_ms() - began_ms >= TIMEOUT_MS then
            return nil, "weir did not respond in time"
        end
    end
    local socket, wrong = connect()
    if not socket then
        return nil, wrong
    end
    local response = exchange(socket, request, true)
    return response, "weir did not respond in time"
end

-- ---- a decision --------------------------------------------------------------------------------

local function encode(text)
    return (text:gsub("[^A-Za-z0-9._~-]", function(c)
        return ("%%%02X"):format(c:byte())
    end))
end

local function argument(txn, text)
    local scope = text:match("^(%l+)%.")
    if scope == "proc" or scope == "sess" or scope == "txn" or scope == "req" then
        local value = txn:get_var(text)
        return value and tostring(value)
    end
    return text
end

-- Texts that look like the name of a fetch or a log-format, and are the same for all requests.
local FETCHES = {src = true, path = true, url = true, base = true, method = true, query = true}
local warned = {}

local function check_key(text)
    if not warned[text] and (FETCHES[text] or text:find("[%%(]") or text:find("^res%.")
        or text:find("^var%.")) then
        warned[text] = true
        core.Warning("weir: the key '" .. text .. "' is a text, the same for all requests: set a "
            .. "variable with http-request set-var, and name it, such as txn.weir_key")
    end
end

local function seconds(ms)
    return ms and ms >= 0 and (ms + 999) // 1000 or nil
end

-- The members of the body. A body of the operator's own (`denied` of weir.yaml) has none.
local function members(response)
    local body, fields = response.body, response.fields
    local function number(name)
        return math.tointeger(tonumber(body:match('"' .. name .. '":(%-?%d+)')))
    end
    if not (fields.content_type or ""):find("json", 1, true) then
        body = ""
    end
    local retry_after_ms = number("retry_after_ms")
    return {
        limit = number("limit"), remaining = number("remaining"), delay = number("delay_ms"),
        reset = seconds(number("reset_after_ms")), next = seconds(number("next_ms")),
        retry_after = math.tointeger(tonumber(fields.retry_after)) or seconds(retry_after_ms),
        policy = body:match('"policy":"([^"\\]*)"'), reason = body:match('"reason":"([^"\\]*)"'),
    }
end

local function set(txn, name, value)
    if value ~= nil then
        txn:set_var("txn.weir." .. name, value)
    end
end

-- Without a decision, the variables of an earlier action of the transaction do not count.
local function set_error(txn, text)
    txn:unset_var("txn.weir.allowed")
    set(txn, "error", text)
end

local DECIDED = {"retry_after", "reset", "remaining", "limit", "policy", "reason", "delay", "next"}

-- Sets the variables of a decision. One without a value does not keep that of an earlier action.
local function set_decided(txn, values)
    for _, name in ipairs(DECIDED) do
        if values[name] ~= nil then
            set(txn, name, values[name])
        else
            txn:unset_var("txn.weir." .. name)
        end
    end
end

-- Denies a request that can never be decided, because of what it contains. If it passed, a client
-- could choose such content to avoid its limit.
local function refuse(txn, text)
    set(txn, "allowed", false)
    set(txn, "error", text)
    set_decided(txn, {})
end

-- The statuses of weir for a request that is invalid.
local INVALID = {[400] = true, [413] = true, [414] = true, [431] = true}

local function set_decision(txn, response)
    set(txn, "allowed", response.status == 200)
    txn:unset_var("txn.weir.error")
    local found = members(response)
    set_decided(txn, found)
    for name, value in pairs(response.fields) do
        if name:find("ratelimit", 1, true) then
            set(txn, name, value)
        end
    end
    if found.delay and found.delay > 0 and response.status == 200 then
        core.msleep(found.delay)
    end
end

-- After several failures the daemon is asked only now and then, so that requests do not wait.
local function may_ask()
    if failures < FAILURES_MAX then
        return true
    end
    local now = now_ms()
    if now < retry_at_ms then
        return false
    end
    retry_at_ms = now + RETRY_MS
    return true
end

local function take(txn, policy_name, key_name, cost_name, keep_name)
    local policy, key = argument(txn, policy_name), argument(txn, key_name)
    local cost, keep = argument(txn, cost_name), argument(txn, keep_name)
    if not policy or not key or not cost or not keep then
        warn("denied", "the variable " .. (not policy and policy_name or not key and key_name
            or not cost and cost_name or keep_name) .. " is not set")
        return refuse(txn, "an argument has no value")
    end
    if key == key_name then
        check_key(key)
    end
    local target = "/v1/take?delay=report&denied=429&policy=" .. encode(policy)
        .. "&key=" .. encode(key) .. "&cost=" .. encode(cost) .. "&keep=" .. encode(keep)
    if #target > TARGET_MAX then
        return refuse(txn, "the arguments are too long")
    end
    if not may_ask() then
        return set_error(txn, "weir is unavailable")
    end
    local response, wrong = ask("GET " .. target .. HEAD)
    if not response then
        failures, retry_at_ms = failures + 1, now_ms() + RETRY_MS
        if failures == FAILURES_MAX then
            core.Warning("weir is unavailable: " .. wrong)
        end
        return set_error(txn, wrong)
    end
    failures = 0
    if response.status ~= 200 and response.status ~= 429 then
        local text = "weir responded with " .. response.status .. ": "
            .. response.body:sub(1, 200):gsub("%c", " ")
        warn(INVALID[response.status] and "denied" or "not limited", text)
        return (INVALID[response.status] and refuse or set_error)(txn, text)
    end
    set_decision(txn, response)
end

core.register_action("weir", {"http-req"}, function(txn, policy, key)
    take(txn, policy, key, "1", "0")
end, 2)

core.register_action("weir-cost", {"http-req"}, function(txn, policy, key, cost)
    take(txn, policy, key, cost, "0")
end, 3)

core.register_action("weir-keep", {"http-req"}, take, 4)
