package api

import (
	"fmt"
	"hash/crc32"
	"net/http"
	"regexp"
	"slices"
	"strconv"

	"github.com/unweaver/unweaver/internal/fault"
)

// cursorForm is a cursor: a name, a place, and a checksum of both with the list. The name is the generation that a
// list is of, and the place that of the next entry; in a list of names it is the last entry of the page before, and the
// place is 0. It is opaque to clients.
const cursorForm = `^([a-z0-9][a-z0-9-]{0,62})\.(0|[1-9][0-9]{0,8})\.([0-9a-f]{8})$`

var cursorPattern = regexp.MustCompile(cursorForm)

// cursorOf writes the cursor of a list: that of a request without what chooses a page.
func cursorOf(request *http.Request, name string, place int) string {
	list := request.URL.Query()
	for _, parameter := range []string{"cursor", "limit", "generation"} {
		list.Del(parameter)
	}
	sum := crc32.ChecksumIEEE(fmt.Appendf(nil, "%s.%d %s?%s", name, place, request.URL.Path, list.Encode()))
	return fmt.Sprintf("%s.%d.%08x", name, place, sum)
}

// nextCursor makes the cursor of a list within a generation; none where the list ends, which place 0 says.
func nextCursor(request *http.Request, generation string, place int) string {
	if place == 0 {
		return ""
	}
	return cursorOf(request, generation, place)
}

// readCursor reads the cursor of a request; none has no name. One that this list did not give is refused: with another
// order or filter a place is that of another entry.
func readCursor(request *http.Request) (name string, place int, err error) {
	text := request.URL.Query().Get("cursor")
	if text == "" { // as next_cursor is at the end
		return "", 0, nil
	}
	if parts := cursorPattern.FindStringSubmatch(text); parts != nil {
		name = parts[1]
		place, _ = strconv.Atoi(parts[2]) // the form allows nothing else
	}
	if name == "" || cursorOf(request, name, place) != text {
		return "", 0, newFault("read request", "cursor", fmt.Sprintf("%.80q is not a cursor of this list", text),
			"send next_cursor of the previous page with the same order and filters, or no cursor for the first page")
	}
	return name, place, nil
}

// wanted is which generation a request means, and from which entry of a list on.
type wanted struct {
	generation string // empty: the current one
	place      int
	paged      bool // a cursor says so
}

func wantedOf(request *http.Request) (wanted, error) {
	out := wanted{generation: request.URL.Query().Get("generation")}
	name, place, err := readCursor(request)
	if err != nil || name == "" {
		return out, err
	}
	if out.generation != "" && out.generation != name {
		return out, newFault("read request", "cursor", "it belongs to generation "+name+", not "+out.generation,
			"omit generation: the cursor already selects it")
	}
	return wanted{name, place, true}, nil
}

// mapGone makes of a generation that a cursor names, and that is unknown or that its caller may read no longer, one
// that is gone: the list that the client reads has ended.
func (w wanted) mapGone(err error) error {
	switch {
	case w.paged && fault.Is(err, fault.UnknownGen):
		return endOfList(w.generation, "the generation of the cursor was deleted")
	case w.paged && fault.Is(err, fault.Forbidden):
		return endOfList(w.generation, "the generation of the cursor is not the current one, whose labels count")
	}
	return err
}

func endOfList(name, why string) error {
	return fault.GenCollected.At("go on with the list", name).Because(why).Advise("start the list again without a cursor")
}

// namedPage cuts the page that a request asks for out of a list whose entries have names. Its cursor is the name of the
// entry before, so that a page goes on after it although others came meanwhile.
func namedPage[T any](request *http.Request, all []T, name func(T) string) (page []T, cursor string, err error) {
	limit, err := limitOf(request)
	if err != nil {
		return nil, "", err
	}
	after, _, err := readCursor(request)
	if err != nil {
		return nil, "", err
	}
	if after != "" {
		last := slices.IndexFunc(all, func(one T) bool { return name(one) == after })
		if last < 0 {
			return nil, "", endOfList(after, "the entry of the cursor no longer exists")
		}
		all = all[last+1:]
	}
	if len(all) > limit {
		all, cursor = all[:limit], cursorOf(request, name(all[limit-1]), 0)
	}
	return append([]T{}, all...), cursor, nil
}
