package httpapi

import (
	"net/http"
	"net/url"

	"github.com/unweaver/unweaver/internal/core"
)

// Headers that say who asks, and why, for the audit trail; percent-encoded, as both are of any language.
const (
	byHeader     = "X-Unweaver-By"
	reasonHeader = "X-Unweaver-Reason"
)

// operatorOf returns who asks. What they say of themselves is recorded beside what they have shown.
func operatorOf(request *http.Request, via string) core.Operator {
	said := func(header string) string {
		text, err := url.QueryUnescape(request.Header.Get(header))
		if err != nil {
			return ""
		}
		return text
	}
	return core.Operator{By: said(byHeader), Reason: said(reasonHeader), Via: via}
}
