package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/model"
)

// classifyError maps transport and status errors to faults. ctx is the caller's, bounded is the one with our deadlines.
func (r *request) classifyError(ctx, bounded context.Context, err error) error {
	if ctx.Err() != nil {
		return r.markError(ctx.Err())
	}
	if r.refused != nil {
		return r.newStatusFault(*r.refused)
	}
	if transport, ok := errors.AsType[*url.Error](err); ok {
		err = transport.Err
	}
	if cause := context.Cause(bounded); cause != nil { // the deadline or the stall guard ended it
		err = cause
	}
	return r.markError(fault.ModelUnavailable.At(r.op, r.objectName()).
		Because(err).
		Advise("check that the server runs and that models.*.base_url is correct"))
}

// refusal is an answer with another status than 200.
type refusal struct {
	status int
	after  time.Duration // that the server asks to be left alone
	retry  advice
	kind   string // code and type of the contract's error object, in lower case
	text   string // why, as the server says it
}

// longestRefusal that is read of a body, in bytes.
const longestRefusal = 64 << 10

// readRefusal takes the reason from the contract's error object, from what other servers send in its place, or from the
// first bytes of the body.
func readRefusal(response *http.Response) *refusal {
	body, _ := io.ReadAll(io.LimitReader(response.Body, longestRefusal)) // what can be read is enough
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	out := &refusal{status: response.StatusCode, after: retryAfter(response.Header)}
	out.retry = shouldRetry(response.Header)
	var object struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	var reason struct {
		Code    any    `json:"code"` // a string, or a number
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &object) == nil {
		switch {
		case json.Unmarshal(object.Error, &reason) == nil && reason.Message != "":
			out.text, out.kind = reason.Message, strings.ToLower(fmt.Sprint(reason.Code, " ", reason.Type))
		case json.Unmarshal(object.Error, &out.text) == nil && out.text != "": // "error": "why"
		case object.Message != "":
			out.text = object.Message
		case object.Detail != nil:
			out.text = shortenBody(object.Detail)
		}
	}
	if out.text == "" {
		out.text = shortenBody(body)
	}
	if out.text == "" {
		out.text = http.StatusText(out.status)
	}
	return out
}

// newStatusFault maps a refusal to its fault.
func (r *request) newStatusFault(refused refusal) error {
	text := refused.text
	if secret := r.client.cfg.APIKey; len(secret) >= 8 { // some servers repeat the key that they refuse
		text = strings.ReplaceAll(text, secret, redact.Mark)
	}
	text = redact.Text(text)
	cause := fmt.Sprintf("%d %s", refused.status, text)
	at := func(code fault.Code) *fault.Error { return code.At(r.op, r.objectName()).Because(cause) }
	lower := refused.kind + " " + strings.ToLower(refused.text)
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(lower, word) })
	}
	switch status := refused.status; {
	case r.refusesPictures():
		return at(fault.PicturesRefused).Advise(model.AdvisePictures)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return at(fault.ModelAuth).
			Advise("set the key in the variable that models.*.api_key_env names; resume a run that paused")
	case status == http.StatusNotFound:
		return at(fault.ModelUnknown).Advise("check models.*.model and models.*.base_url")
	case status == http.StatusPaymentRequired,
		status == http.StatusTooManyRequests && (refused.retry == never || says("insufficient_quota", "billing")):
		return at(fault.ModelQuota).Advise("raise the quota; resume a run that paused")
	case status == http.StatusTooManyRequests:
		limited := at(fault.ModelRateLimited)
		limited.RetryAfter = refused.after
		return limited
	case r.refusedForm() == answerShape: // asked without one, it still is about the form
		return at(fault.BadConfig).Advise("use another server or model: this one rejects every form of the request")
	case status == http.StatusBadRequest && says("model") && says("not exist", "not found", "unknown"):
		return at(fault.ModelUnknown).Advise("check models.*.model")
	case refused.retry == never && !model.AboutContent(lower):
		return at(fault.ModelRefused).Advise("check the log of the server: it says that a retry is useless")
	case status < 400:
		return at(fault.ModelUnavailable).Advise("check that models.*.base_url is the address of a model server")
	case status >= 500 || status == http.StatusRequestTimeout || status == http.StatusConflict ||
		refused.retry == again:
		down := at(fault.ModelUnavailable).Advise("check the log of the model server")
		down.RetryAfter = refused.after
		return down
	case model.AboutContent(lower):
		return at(fault.ModelRejected)
	}
	return at(fault.ModelRefused).
		Advise("check the log of the model server or its gateway; rejected requests are retried")
}

// newUnreadableFault returns the fault of a 200 whose body is not what the contract says.
func (r *request) newUnreadableFault(response *http.Response, raw []byte, err error) error {
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	return r.markError(fault.ModelUnreadable.At(r.op, r.objectName()).
		Because(fmt.Sprintf("200 with %d bytes of %q, which is not a valid response (%v): %s",
			len(raw), kind, err, redact.Text(shortenBody(raw)))).
		Advise("check that models.*.base_url is the address of a model server; it usually ends in /v1"))
}

// snippet of a body that is shown, in bytes.
const snippet = 200

// shortenBody returns the beginning of a body on one line, without secrets: they go before it is cut, as a part of one
// is none that is known.
func shortenBody(body []byte) string {
	text := strings.ToValidUTF8(redact.Text(string(body[:min(len(body), longestRefusal)])), "")
	more := len(text) > snippet
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text[:min(len(text), snippet)], "")), " ")
	if more {
		text += "..."
	}
	return text
}
