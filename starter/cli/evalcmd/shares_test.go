package evalcmd

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/eval"
)

func TestSharesAreIndexesBesideTheOneOfAll(t *testing.T) {
	dataset := &eval.Dataset{Passages: []string{"Ada Lovelace", "Charles Babbage"}}
	spec := core.Spec{
		Index: "i", Chat: core.ChatModel{Provider: "recorded"}, Chunking: core.Chunking{Strategy: "document"},
	}
	shares, err := evalShares([]string{"1", "0", "0.3", "0.30"}, dataset, spec)
	require.True(t, err == nil && len(shares) == 3 && shares[0].Index == "i-share-0" && shares[1].Index == "i-share-30" &&
		shares[2].Index == "i" && shares[2].Sent == 2, "%+v %v", shares, err)
	got := ofShare(spec, shares[1])
	assert.True(t, got.Index == "i-share-30" && got.ExtractionShare() == 0.3, "%+v", got)
	got = ofShare(spec, shares[2])
	assert.True(t, got.Index == "i" && got.Extraction == nil, "%+v", got)
	asked := ofShares([]eval.System{{Method: "hybrid"}, {Method: "bm25", Generation: "g"}}, shares, "i")
	assert.True(t, len(asked) == 2 && asked[0].Index == "i-share-0" && asked[1].Index == "i-share-30", "%+v", asked)
	free, cut, own := spec, spec, spec
	free.Chat.Provider, cut.Chunking.Strategy, own.Extraction = "builtin", "text", &core.Extraction{Share: 0.5}
	for name, c := range map[string]struct {
		given []string
		spec  core.Spec
	}{
		"no number": {[]string{"many"}, spec}, "NaN": {[]string{"NaN"}, spec}, "above 1": {[]string{"1.1"}, spec},
		"below 0": {[]string{"-0.1"}, spec}, "one index for two": {[]string{"0.301", "0.299"}, spec},
		"rules alone": {[]string{"0"}, free}, "passages that are cut": {[]string{"0"}, cut},
		"sets extraction.share": {[]string{"0"}, own},
	} {
		got, err := evalShares(c.given, dataset, c.spec)
		assert.True(t, fault.Is(err, fault.Usage), "%s: %+v %v", name, got, err)
	}
}
