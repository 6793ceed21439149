-- POSTs the file that BODY_FILE names; prints one line of JSON at the end, times in milliseconds.
wrk.method = "POST"
local file = io.open(os.getenv("BODY_FILE"), "rb")
wrk.body = file:read("*a")
file:close()

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format('\n{"done":%d,"failed":%d,"seconds":%f,"p50":%f,"p99":%f}\n', summary.requests,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout, summary.duration / 1e6,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
