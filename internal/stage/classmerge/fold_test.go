package classmerge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
)

// fold makes a class from mentions.
func fold(spec core.Spec, mentions ...rows.Mention) rows.Reduced {
	class := BeginClass(core.ID{1}, spec)
	for _, mention := range mentions {
		class.Add(mention)
	}
	return class.End()
}

// seen is a mention in chunk n: form, type, description.
func seen(n byte, form, kind, description string) rows.Mention {
	return rows.Mention{Surface: form, Type: kind, Description: description, Chunk: core.ID{n}, Position: int(n)}
}

// sampling is a specification with a bound of what a text is made from.
func sampling(most int) (spec core.Spec) {
	spec.Shortening.Sample = most
	return spec
}

func TestAClassHasTheNameAndTypeOfMostMentions(t *testing.T) {
	for name, c := range map[string]struct {
		mentions         []rows.Mention
		form, kind, seen string // seen: the form under parity
	}{
		"none":          {nil, "", "", ""},
		"the most":      {[]rows.Mention{seen(1, "b", "", ""), seen(2, "a", "x", ""), seen(2, "b", "y", ""), seen(3, "c", "y", "")}, "b", "y", "b"},
		"of equals":     {[]rows.Mention{seen(1, "b", "y", ""), seen(2, "a", "x", "")}, "a", "x", "b"},
		"types are few": {[]rows.Mention{seen(1, "a", "", ""), seen(2, "a", "", ""), seen(3, "a", "x", "")}, "a", "x", "a"},
	} {
		got := fold(core.Spec{}, c.mentions...)
		assert.Equal(t, []string{c.form, c.kind}, []string{got.Name, got.Type}, name)
		assert.Equal(t, c.seen, fold(core.Spec{Parity: true}, c.mentions...).Name, "%s, parity", name)
	}
	var forms []rows.Mention
	for n := range 2 * maxSurfaces {
		forms = append(forms, seen(1, fmt.Sprintf("form %05d", n), "", ""))
	}
	class := BeginClass(core.ID{1}, core.Spec{})
	for _, mention := range append(forms, forms[9], forms[maxSurfaces], forms[maxSurfaces]) {
		class.Add(mention)
	}
	assert.Len(t, class.surfaces, maxSurfaces, "an attack takes no more memory")
	assert.Equal(t, forms[9].Surface, class.End().Name, "forms beyond the bound do not count")
}

func TestTheTextOfAClassDependsOnABoundedSampleInAnyOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var mentions []rows.Mention
	for n := range 200 {
		mentions = append(mentions, seen(byte(n), "a", "", fmt.Sprint("description ", n)))
	}
	mentions = append(mentions, seen(200, "a", "", "")) // says nothing
	want := fold(sampling(7), mentions...)
	assert.Len(t, want.Descriptions, 7)
	all := fold(sampling(0), mentions...).Descriptions
	assert.Len(t, all, 200)
	assert.Equal(t, all[:7], want.Descriptions, "a sample is the first of all")
	inOrder := fold(core.Spec{Parity: true}, mentions...).Descriptions
	assert.Equal(t, "description 0,description 1", strings.Join(inOrder[:2], ","), "parity: in chunk order, all")
	for range 20 {
		random.Shuffle(len(mentions), func(i, j int) { mentions[i], mentions[j] = mentions[j], mentions[i] })
		got := fold(sampling(7), mentions...)
		assert.Equal(t, want.Text, got.Text)
		assert.Equal(t, want.Descriptions, got.Descriptions)
	}
	one := seen(1, "a", "", "d")
	text := fold(core.Spec{}, one).Text
	assert.NotEqual(t, text, fold(core.Spec{Parity: true}, one).Text, "recipes differ")
	assert.NotEqual(t, text, fold(core.Spec{}, seen(1, "b", "", "d")).Text, "another name")
	assert.Equal(t, text, fold(core.Spec{}, one, seen(2, "a", "x", "")).Text, "who says nothing changes no text")
}

// The members are the chunks with how often each names the class.
func TestTheCountsOfAClassAreThoseOfItsChunks(t *testing.T) {
	a, b := seen(1, "a", "", ""), seen(2, "a", "", "")
	digests := map[core.Digest]string{}
	for _, c := range []struct {
		mentions []rows.Mention
		chunks   int64
	}{{nil, 0}, {[]rows.Mention{a}, 1}, {[]rows.Mention{a, a}, 1}, {[]rows.Mention{a, b}, 2}, {[]rows.Mention{b, a}, 2},
		{[]rows.Mention{a, a, b}, 2}, {[]rows.Mention{a, b, b}, 2}, {[]rows.Mention{a, b, a}, 3}} {
		got := fold(core.Spec{}, c.mentions...)
		assert.Equal(t, []int64{c.chunks, int64(len(c.mentions))}, []int64{got.ChunkTotal, got.Mentions})
		_, twice := digests[got.Members]
		assert.False(t, twice, "%d mentions in %d chunks have the digest of %s", len(c.mentions), c.chunks, digests[got.Members])
		digests[got.Members] = fmt.Sprint(c)
	}
}

// Each part of a class is in its entry of the content hash; a class without a type has that of a release without types.
func TestTheContentOfAClassHasAllOfIt(t *testing.T) {
	whole := rows.Reduced{Name: "n", Type: "t", Members: core.Sum("m"), Text: core.Sum("t")}
	entries := []core.Digest{Content(core.ID{1}, whole), Content(core.ID{2}, whole)}
	for _, change := range []func(*rows.Reduced){
		func(r *rows.Reduced) { r.Name = "nt" }, func(r *rows.Reduced) { r.Type = "" }, func(r *rows.Reduced) { r.Type = "u" },
		func(r *rows.Reduced) { r.Members = core.Sum("x") }, func(r *rows.Reduced) { r.Text = core.Sum("x") },
	} {
		other := whole
		change(&other)
		entries = append(entries, Content(core.ID{1}, other))
	}
	slices.SortFunc(entries, func(a, b core.Digest) int { return strings.Compare(string(a[:]), string(b[:])) })
	assert.Len(t, slices.Compact(entries), 7)
}
