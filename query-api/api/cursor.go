package api

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
)

// cursorForm is a cursor of a list within one generation: its name, a dot, the place of the next entry. It is opaque to
// clients, and as stable as the generation is.
const cursorForm = `^[a-z0-9][a-z0-9-]{0,62}\.(0|[1-9][0-9]{0,8})$`

var cursorPattern = regexp.MustCompile(cursorForm)

// next makes a cursor; none where the list ends, which place 0 says.
func next(generation string, place int) string {
	if place == 0 {
		return ""
	}
	return generation + "." + strconv.Itoa(place)
}

// wanted is which generation a request means, and from which entry of a list on.
type wanted struct {
	generation string // empty: the current one
	place      int
	paged      bool // a cursor says so
}

func wantedOf(request *http.Request) (wanted, error) {
	query := request.URL.Query()
	out := wanted{generation: query.Get("generation")}
	if !query.Has("cursor") {
		return out, nil
	}
	text := query.Get("cursor")
	if !cursorPattern.MatchString(text) {
		return out, invalid("read request", "cursor", fmt.Sprintf("%.80q is no cursor", text),
			"send the one that the page before gave, or none to begin")
	}
	generation, place, _ := strings.Cut(text, ".")
	if out.generation != "" && out.generation != generation {
		return out, invalid("read request", "cursor", "it is of generation "+generation+", not "+out.generation,
			"leave generation out: the cursor names it")
	}
	out.generation, out.paged = generation, true
	out.place, _ = strconv.Atoi(place) // the form allows nothing else
	return out, nil
}

// gone makes of an unknown generation that a cursor names one that is gone: the list that the client reads has ended.
func (w wanted) gone(err error) error {
	if !w.paged || !fault.Is(err, fault.UnknownGen) {
		return err
	}
	return fault.GenCollected.At("go on with the list", w.generation).
		Because("the generation that the cursor is of was collected").
		Advise("begin the list anew, without a cursor")
}
