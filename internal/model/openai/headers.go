package openai

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
)

// retryAfter returns how long a server asks to be left alone: Retry-After-Ms, or Retry-After in seconds or as a date
// (RFC 9110, section 10.2.3).
func retryAfter(header http.Header) time.Duration {
	if millis, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil && millis >= 0 {
		return capSeconds(millis / 1000)
	}
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds >= 0 {
		return capSeconds(seconds)
	}
	if at, err := http.ParseTime(value); err == nil {
		return time.Until(at) // fault.RetryAfter bounds it
	}
	return 0
}

// capSeconds returns a number of seconds, at most fault.LongestRetryAfter.
func capSeconds(seconds float64) time.Duration {
	return time.Duration(min(max(0, seconds), fault.LongestRetryAfter.Seconds()) * float64(time.Second))
}

// advice is what x-should-retry says of an answer.
type advice int

const (
	unadvised advice = iota
	again
	never
)

func shouldRetry(header http.Header) advice {
	switch strings.ToLower(strings.TrimSpace(header.Get("X-Should-Retry"))) {
	case "true":
		return again
	case "false":
		return never
	}
	return unadvised
}

// readQuota reads the x-ratelimit headers: of requests and of tokens apart, or without saying of what.
func readQuota(header http.Header) model.Quota {
	out := model.Quota{Requests: readRemaining(header, "-Requests"), Tokens: readRemaining(header, "-Tokens")}
	if !out.Requests.Known && !out.Tokens.Known {
		out.Requests = readRemaining(header, "")
	}
	return out
}

func readRemaining(header http.Header, of string) model.Left {
	count, err := strconv.ParseFloat(strings.TrimSpace(header.Get("X-Ratelimit-Remaining"+of)), 64)
	if err != nil || !(count >= 0 && count < 1e15) { // some gateways say -1 where they do not know
		return model.Left{}
	}
	return model.Left{
		Known: true, Count: int64(count), Reset: parseReset(header.Get("X-Ratelimit-Reset" + of)),
	}
}

// Numbers above these are points in time since 1970, in seconds or in milliseconds: as waits they would be decades.
const (
	epochSeconds = 1e9
	epochMillis  = 1e12
)

// parseReset reads "1s", "6m0s", "20ms", a number of seconds, and a time since 1970; 0 for anything else.
func parseReset(value string) time.Duration {
	value = strings.TrimSpace(value)
	if wait, err := time.ParseDuration(value); err == nil {
		return capSeconds(wait.Seconds())
	}
	number, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil || !(number >= 0):
		return 0
	case number > epochMillis:
		number = number/1000 - float64(time.Now().UnixMilli())/1000
	case number > epochSeconds:
		number -= float64(time.Now().UnixMilli()) / 1000
	}
	return capSeconds(number)
}
