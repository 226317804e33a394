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

// Verify reads the body of a request, and returns fault.Unauthorized where it is not signed with the secret, as Sign
// does, or the secret is empty. Where a header is missing, or of long ago, it reads nothing.
func Verify(secret string, header http.Header, now time.Time, read func() ([]byte, error)) ([]byte, error) {
	refused := fault.Unauthorized.At("check the signature", "").
		Advise("sign the request as docs/guides/freshness.md shows, with the secret of this index")
	id, stamp := header.Get(HeaderID), header.Get(HeaderTimestamp)
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || id == "" || len(id) > 256 || header.Get(HeaderSignature) == "" {
		return nil, refused.Because("a header is missing: " + HeaderID + ", " + HeaderTimestamp + " or " + HeaderSignature)
	}
	if now.Sub(time.Unix(seconds, 0)).Abs() > Window {
		return nil, refused.Because(HeaderTimestamp + " is more than 5 minutes from the time of this server").
			Advise("synchronise the clocks, and sign each request when it is sent")
	}
	body, err := read()
	if err != nil {
		return nil, err
	}
	want := Sign(secret, id, stamp, body)
	for _, given := range strings.Fields(header.Get(HeaderSignature)) {
		if secret != "" && subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1 {
			return body, nil
		}
	}
	return nil, refused.Because("the signature is wrong, or the index takes no hints")
}
