package pairstage

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPairsThatMayBeOneAreAskedForFirst(t *testing.T) {
	pair := func(a, of string, cosine float64, spelled bool) Pair {
		return Pair{A: Side{Name: a}, Of: Side{Name: of}, Cosine: cosine, Spelled: spelled}
	}
	given := []Pair{
		pair("Cohere", "Jina", .999, false),
		pair("Port of Alma", "Salt of Tolmin", .998, false), // of says nothing
		pair("Alma Port Company", "The Port of Alma", .95, false),
		pair("I.B.M.", "International Business Machines", .94, false),
		pair("Saint-Denis", "Saint Denis", .2, true),
	}
	var got []string
	for _, one := range OrderPairs(given) {
		got = append(got, one.A.Name)
	}
	want := []string{"Saint-Denis", "Alma Port Company", "I.B.M.", "Cohere", "Port of Alma"}
	assert.True(t, slices.Equal(got, want), "%q, want %q", got, want)
	assert.Equal(t, "Cohere", given[0].A.Name, "what was given is in another order")
}
