package api

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
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
	if query.Get("cursor") == "" { // as next_cursor is at the end
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

// nameForm is a cursor of a list that has names: the name of the last entry of the page before.
const nameForm = `^[a-z0-9][a-z0-9-]{0,62}$`

// namedPage cuts the page that a request asks for out of a list whose entries have names. Its cursor is the name of the
// entry before, so that a page goes on after it although others came meanwhile.
func namedPage[T any](request *http.Request, all []T, name func(T) string) (page []T, cursor string, err error) {
	limit, err := limitOf(request)
	if err != nil {
		return nil, "", err
	}
	if after := request.URL.Query().Get("cursor"); after != "" {
		if !core.ValidSlug(after) {
			return nil, "", invalid("read request", "cursor", fmt.Sprintf("%.80q is no cursor of this list", after),
				"send the one that the page before gave, or none to begin")
		}
		last := slices.IndexFunc(all, func(one T) bool { return name(one) == after })
		if last < 0 {
			return nil, "", fault.GenCollected.At("go on with the list", after).
				Because("the entry that the cursor names is not listed any more").
				Advise("begin the list again, without a cursor")
		}
		all = all[last+1:]
	}
	if len(all) > limit {
		all, cursor = all[:limit], name(all[limit-1])
	}
	return append([]T{}, all...), cursor, nil
}
