package webhook

import (
	"crypto/subtle"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
)

// Window is how far the clock of who signs a request may be from this one's. A request that is sent again within it is
// taken again.
const Window = 5 * time.Minute

// Verify returns fault.Unauthorized where a request is not signed with the secret, as Sign does, or too long ago, or
// the secret is empty.
func Verify(secret string, header http.Header, body []byte, now time.Time) error {
	refused := fault.Unauthorized.At("check the signature", "").
		Advise("sign the request as docs/guides/freshness.md shows, with the secret of this index")
	id, stamp := header.Get(HeaderID), header.Get(HeaderTimestamp)
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || id == "" || len(id) > 256 {
		return refused.Because("a header is missing: " + HeaderID + ", " + HeaderTimestamp + " or " + HeaderSignature)
	}
	if now.Sub(time.Unix(seconds, 0)).Abs() > Window {
		return refused.Because(HeaderTimestamp + " is more than 5 minutes from the time of this server").
			Advise("synchronise the clocks, and sign each request when it is sent")
	}
	want := Sign(secret, id, stamp, body)
	for _, given := range strings.Fields(header.Get(HeaderSignature)) {
		if secret != "" && subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1 {
			return nil
		}
	}
	return refused.Because("the signature is wrong, or the index takes no hints")
}
