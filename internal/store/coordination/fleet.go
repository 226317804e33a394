package coordination

import (
	"context"
	"time"
)

// Want is what a process says of one limit that all share: the calls in flight at an endpoint.
type Want struct {
	Total  int // what all together may have, as this process has it configured; the least that any reports counts
	Demand int // what the process could use now: calls in flight and calls that wait
	Held   int // what it may have in flight until it hears the answer: its share so far, or what is still out
}

// Fleet is the processes that live. Ages are judged by the store's own clock: those of processes may differ. After a
// loss it is empty until each has reported itself again, within a beat, in which what they may use together can be
// nearly twice the total.
type Fleet interface {
	// Beat says that a process lives, for ttl, and what it is; value is small and opaque here. For each limit that it
	// names, it gets the share that it may use from now on: equal shares by demand, where who needs less leaves the rest
	// to the others, and what none needs is spread. What others still hold is not given away before they report that
	// they have less, so shares never add up to more than the total among processes that live. It also says how many
	// live, this one among them. One request; it may arrive twice.
	Beat(
		ctx context.Context, member string, value []byte, wants map[string]Want, ttl time.Duration,
	) (shares map[string]int, living int, err error)
	// ListMembers reports every process that lives with the value of its last beat. One request.
	ListMembers(ctx context.Context) (map[string][]byte, error)
	// Leave ends a process's entry and gives back its shares of limits.
	Leave(ctx context.Context, member string, limits []string) error
}

// Turn is how long a process keeps its place where there are fewer places than processes that want one: they take
// turns.
const Turn = 10 * time.Second

// ComputeShare returns what a process may use of a limit, given what all that live said last, itself included; turn
// counts Turns of the store's clock. It is the arithmetic of Fleet.Beat.
func ComputeShare(all map[string]Want, member string, turn int64) int {
	mine := all[member]
	total, others := mine.Total, 0
	for name, want := range all {
		total = min(total, want.Total)
		if name != member {
			others += want.Held
		}
	}
	return max(0, min(fairShare(all, member, total, turn), total-others))
}

// fairShare returns the member's part of a total, whatever each holds.
func fairShare(all map[string]Want, member string, total int, turn int64) int {
	left, hungry, level := total, len(all), -1
	for hungry > 0 && left/hungry > level { // until all have what they need, or the level stays
		settled := level
		level = left / hungry
		for _, want := range all {
			if want.Demand > settled && want.Demand <= level {
				left -= want.Demand
				hungry--
			}
		}
	}
	mine, before := all[member].Demand, 0
	if mine <= level && hungry > 0 {
		return mine
	}
	for name, want := range all {
		if name < member && (hungry == 0 || want.Demand > level) {
			before++
		}
	}
	base, parts := level, hungry
	if hungry == 0 { // what none needs is spread
		base, parts = mine+left/len(all), len(all)
	}
	if level == 0 && hungry > 0 {
		before = int((int64(before) + turn) % int64(hungry))
	}
	if before < left%parts {
		base++
	}
	return base
}
