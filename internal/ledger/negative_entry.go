package ledger

import (
	"bytes"
	"strconv"
)

// A negative entry stands under the key of its result, so that one request reports a miss: this mark, the attempt, a
// line feed, its message. No result begins like that: those of chat models are JSON, and answers of embedding models
// begin with a number that this is too large for.
const negativeMark = "\x00neg "

func encodeNegative(attempt int, value []byte) []byte {
	return append(strconv.AppendInt([]byte(negativeMark), int64(attempt), 10), append([]byte("\n"), value...)...)
}

// decodeNegative reads a stored entry; negative is false where it is a positive one.
func decodeNegative(raw []byte) (value []byte, attempt int, negative bool) {
	rest, ok := bytes.CutPrefix(raw, []byte(negativeMark))
	if !ok {
		return raw, 0, false
	}
	digits, value, ok := bytes.Cut(rest, []byte("\n"))
	attempt, err := strconv.Atoi(string(digits))
	if !ok || err != nil {
		return raw, 0, false
	}
	return value, attempt, true
}
