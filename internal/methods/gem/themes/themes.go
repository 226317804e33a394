// Package themes is the file of the themes of a graphical eigen memory (internal/methods/gem): which chunks each
// eigenvector puts together, what a summary says of them, and what the spectrum says. It is one JSON document of a few
// dozen kilobytes: there are at most a dozen themes, and it is read whole.
package themes

import (
	"encoding/json"
	"os"
	"strconv"

	"github.com/unweaver/unweaver/internal/artifact/vector"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Version of the file.
// 1: themes with members, summaries, questions; the spectrum.
const Version = 1

// Kind of the file.
const Kind = "themes"

// File is what it holds. Equal content is equal bytes.
type File struct {
	Version   int    `json:"version"`
	Embedder  string `json:"embedder"`  // fingerprint
	Dimension int    `json:"dimension"` // of vectors
	Nodes     int64  `json:"nodes"`     // chunks that the spectrum is of; more or fewer may count since
	Graph     string `json:"graph"`     // the form that the spectrum was computed of
	// Values are the eigenvalues in the order in which themes were taken from them, Residuals |L x - lambda x| of each.
	Values    []float64 `json:"values"`
	Residuals []float64 `json:"residuals"`
	Distinct  float64   `json:"distinct"`  // sum of the squares of all eigenvalues: the larger, the more distinct
	Estimated int       `json:"estimated"` // themes, by the first gap among the values; 0: there is none
	Themes    []Theme   `json:"themes"`
}

// Theme is a group of chunks with what was made of it.
type Theme struct {
	Pair      int        `json:"pair,omitempty"` // of the spectrum, in the order of Values
	Lambda    float64    `json:"lambda"`
	Beta      float64    `json:"beta"`    // lambda as a share of the first
	Members   []Member   `json:"members"` // the largest component first
	Summary   string     `json:"summary"`
	Tokens    int        `json:"tokens"` // of the summary
	Questions []Question `json:"questions"`
}

// Member is a chunk of a theme, with its component of the eigenvector.
type Member struct {
	Chunk   string  `json:"chunk"`
	Loading float64 `json:"loading"`
}

// ID returns the id of the chunk; Decode refuses what is none.
func (m Member) ID() core.ID {
	id, _ := core.ParseID(m.Chunk)
	return id
}

// Question is one that a summary answers, with what a prompt is compared with.
type Question struct {
	Text   string `json:"text"`
	Vector Vector `json:"vector"`
}

// Vector is written as base64 of its little-endian numbers.
type Vector = vector.JSON

// Encode gives the bytes of a file. One that Decode would refuse is fault.Internal.
func (f File) Encode() ([]byte, error) {
	f.Version = Version
	if why := f.checkFit(); why != "" {
		return nil, fault.Internal.At("write", "the themes of a generation").Because(why).
			Advise("this is a fault of the program: report it with this text")
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return nil, fault.Internal.At("write", "the themes of a generation").Because(err)
	}
	return append(raw, '\n'), nil
}

// Decode reads a file. Errors: fault.FormatUnknown for another version, fault.SegmentDamage for what is no such file.
func Decode(raw []byte) (*File, error) {
	var f File
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fault.SegmentDamage.At("read", "the themes of a generation").Because(err)
	}
	if f.Version != Version {
		return nil, fault.FormatUnknown.At("read", "the themes of a generation").
			Because("it is of version " + strconv.Itoa(f.Version) + ", and this program reads " + strconv.Itoa(Version)).
			Advise("build the index again with: unweaver index")
	}
	if why := f.checkFit(); why != "" {
		return nil, fault.SegmentDamage.At("read", "the themes of a generation").Because(why)
	}
	return &f, nil
}

// Open reads a file from a path.
func Open(path string) (*File, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.SegmentDamage.At("read", path).Because(err)
	}
	return Decode(raw)
}

// checkFit says what no file of themes has.
func (f File) checkFit() string {
	if f.Embedder == "" || f.Dimension < 1 {
		return "its vectors are of no embedder"
	}
	if len(f.Residuals) != len(f.Values) {
		return "it has " + strconv.Itoa(len(f.Residuals)) + " residuals of " + strconv.Itoa(len(f.Values)) + " eigenvalues"
	}
	for i, theme := range f.Themes {
		if why := f.unfitTheme(theme); why != "" {
			return "theme " + strconv.Itoa(i) + ": " + why
		}
	}
	return ""
}

func (f File) unfitTheme(theme Theme) string {
	if len(theme.Members) == 0 {
		return "it has no members"
	}
	if theme.Pair < 0 || theme.Pair >= max(1, len(f.Values)) {
		return "it is of no eigenvector"
	}
	seen := map[string]bool{}
	for _, member := range theme.Members {
		if _, err := core.ParseID(member.Chunk); err != nil {
			return "a member is no chunk"
		}
		if seen[member.Chunk] {
			return "chunk " + member.Chunk + " is in it twice"
		}
		seen[member.Chunk] = true
	}
	for _, question := range theme.Questions {
		if len(question.Vector) != f.Dimension {
			return "a question has a vector of dimension " + strconv.Itoa(len(question.Vector))
		}
		for _, x := range question.Vector {
			if x-x != 0 {
				return "a vector holds what is no finite number"
			}
		}
	}
	return ""
}
