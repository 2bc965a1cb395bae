#!/bin/sh
# The calls of the README against a running server: tests/http/smoke.sh [URL]
# Prints one line per call; exit status 1 if an answer is not as it should be.
url=${1:-http://127.0.0.1:5000}
failed=0

# expect NAME PATTERN CURL-ARGUMENTS...: the reply, then " STATUS", must match the pattern
expect() {
    name=$1 pattern=$2
    shift 2
    reply=$(curl -sS -m 30 -w ' %{http_code}' "$@" 2>&1)
    if printf '%s' "$reply" | tr '\n' ' ' | grep -Eq "$pattern"; then
        echo "ok      $name"
    else
        echo "FAILED  $name: $reply"
        failed=1
    fi
}

models=$(curl -sS -m 30 "$url/models")
field() { printf '%s' "$models" | sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/"; }
model=$(field name) source=$(field source) target=$(field target)
translated='"translatedText":".+".* 200$'
json='Content-Type: application/json'
pair="\"source\":\"$source\",\"target\":\"$target\""

expect "health" '"ok".* 200$' "$url/health"
expect "ready" '"ok".* 200$' "$url/health/ready"
expect "languages" '"targets":\[".* 200$' "$url/languages"
expect "JSON" "$translated" "$url/translate" -H "$json" -d "{\"q\":\"Hello.\",$pair}"
expect "array" '"translatedText":\[".*",".*"\].* 200$' "$url/translate" -H "$json" \
    -d "{\"q\":[\"Hello.\",\"Thanks.\"],$pair}"
expect "form" "$translated" "$url/translate" -d q=Hello. -d "source=$source" -d "target=$target"
expect "multipart" "$translated" "$url/translate" -F q=Hello. -F "source=$source" \
    -F "target=$target"
expect "query" "$translated" -X POST "$url/translate?q=Hello.&source=$source&target=$target"
expect "by model" "$translated" "$url/translate/$model" -d q=Hello.
expect "alternatives" '"alternatives":\[".*200$' "$url/translate" -H "$json" \
    -d "{\"q\":\"Hello.\",\"alternatives\":2,$pair}"
expect "missing q" 'missing q parameter.* 400$' "$url/translate" -d "source=$source"
expect "unknown model" '"unknown_model".* 404$' "$url/translate/nope" -d q=Hello.
expect "wrong method" '"method_not_allowed".* 405$' "$url/translate"
expect "unknown path" '"not_found".* 404$' "$url/nowhere"
exit $failed
