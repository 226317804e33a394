package codec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// Key encrypts and authenticates what an installation exchanges through its engine.
type Key struct {
	ID   string // stands in the metadata of every payload; it says nothing of the key
	aead cipher.AEAD
}

const (
	keyFormat = "unweaver-codec-key-1"
	keyBytes  = 32
)

// Load reads a key file. Only its owner may read it: this user, or root, who may lend it to a group of this user.
func Load(path string) (*Key, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, keyFault(path, err, "use a copy of the file of the other programs, with mode 0600")
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, keyFault(path, err, "see the file system")
	}
	if err := checkPrivate(info); err != nil {
		return nil, keyFault(path, err, "make it a regular file owned by the user of this program: chown, then chmod 600")
	}
	raw := make([]byte, 1024)
	n, err := file.Read(raw)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, keyFault(path, err, "see the file system")
	}
	fields := strings.Fields(string(raw[:n]))
	if len(fields) != 3 || fields[0] != keyFormat {
		return nil, keyFault(path, errDamaged, adviseBackup)
	}
	secret, err := base64.StdEncoding.DecodeString(fields[2])
	if err != nil || len(secret) != keyBytes || identifyKey(secret) != fields[1] {
		return nil, keyFault(path, errDamaged, adviseBackup)
	}
	return newKey(secret)
}

const adviseBackup = "restore the file from a backup; without it running runs cannot continue"

// errDamaged is that a file holds no key, or one whose id is another's.
var errDamaged = errors.New("the file is damaged: it lacks the key or its id")

// adviseWithout says what to do where there may be no backup.
func adviseWithout(path, histories string) string {
	return "put it back from a backup; or remove " + histories + ", " + path + " and " + path + copySuffix + ": what is " +
		"published stays, runs in flight and schedules are forgotten; then run `unweaver restore --all`"
}

func keyFault(path string, why error, advice string) error {
	return fault.BadConfig.At("read the engine's codec key", path).Because(why).Advise(advice)
}

// checkPrivate returns an error where others than the owner can read or replace a key.
func checkPrivate(info fs.FileInfo) error {
	owner, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	switch {
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case !ok:
		return errors.New("this system does not say who owns it")
	case int(owner.Uid) == os.Geteuid() && mode&0o077 == 0:
		return nil
	case owner.Uid == 0 && mode&0o027 == 0: // a secret that is mounted into a container
		return nil
	case int(owner.Uid) == os.Geteuid() || owner.Uid == 0:
		return fmt.Errorf("its mode is %04o: other users can read or change it", mode)
	}
	return fmt.Errorf("it belongs to user %d, not to this one (%d)", owner.Uid, os.Geteuid())
}

// Create reads the key at path, and makes it first where there is none yet. Of two that make one at once, both get the
// same. Beside the histories of an engine, a file or folder, it is kept twice: one that is lost or damaged is written
// from path+".copy", and the other way round. Where both are, and where they are not the same key, it is an error,
// as runs in flight would fail. Without histories there is no second one.
func Create(path, histories string) (*Key, error) {
	if histories == "" {
		return createOnly(path)
	}
	copied := path + copySuffix
	key, err := Load(path)
	other, otherErr := Load(copied)
	switch {
	case err == nil && otherErr == nil && key.ID == other.ID:
		return key, nil
	case err == nil && otherErr == nil:
		return nil, keyFault(path, fmt.Errorf("it is key %s, but runs were recorded with key %s", key.ID, other.ID),
			adviseWithout(path, histories))
	case err == nil && isGone(otherErr):
		return key, copyKey(path, copied)
	case otherErr == nil && isGone(err):
		return other, copyKey(copied, path)
	case errors.Is(err, fs.ErrNotExist) && errors.Is(otherErr, fs.ErrNotExist):
		if _, stands := os.Lstat(histories); stands == nil {
			return nil, keyFault(path, errors.New("it is lost, but runs were recorded with it"), adviseWithout(path, histories))
		}
		if key, err = createOnly(path); err != nil {
			return nil, err
		}
		return key, copyKey(path, copied)
	case isGone(err) && isGone(otherErr):
		return nil, keyFault(path, errDamaged, adviseWithout(path, histories))
	case !isGone(err) && err != nil:
		return nil, err
	}
	return nil, otherErr
}

const copySuffix = ".copy"

// isGone reports that a key file is lost or damaged: what its other copy holds may take its place.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errDamaged) }

// copyKey makes the file to a copy of from, without a moment in which there is none: another process would make a key.
func copyKey(from, to string) error {
	raw, err := os.ReadFile(from)
	if err == nil {
		err = writeLine(to, strings.TrimSpace(string(raw)), os.Rename)
	}
	if err != nil {
		return keyFault(to, err, "see the file system")
	}
	return nil
}

// createOnly reads the key at path, and makes it first where there is none yet.
func createOnly(path string) (*Key, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		secret := make([]byte, keyBytes)
		_, _ = rand.Read(secret) // never fails
		text := strings.Join([]string{keyFormat, identifyKey(secret), base64.StdEncoding.EncodeToString(secret)}, " ")
		if err := writeLine(path, text, os.Link); err != nil {
			return nil, fault.Usage.At("make the engine's codec key", path).Because(err).Advise("choose another data directory")
		}
	}
	return Load(path)
}

// writeLine makes a file of one line, and puts it in its place. Where that is taken, and may not be, it leaves the one
// that another process made meanwhile.
func writeLine(path, line string, put func(from, to string) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, line)
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = put(file.Name(), path)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if left := os.Remove(file.Name()); !errors.Is(left, fs.ErrNotExist) {
		err = errors.Join(err, left)
	}
	return errors.Join(err, durable.SyncFolder(filepath.Dir(path)))
}

// identifyKey returns the id of a key.
func identifyKey(secret []byte) string {
	sum := sha256.Sum256(append([]byte(keyFormat+"\x00id\x00"), secret...))
	return hex.EncodeToString(sum[:8])
}

func newKey(secret []byte) (*Key, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &Key{ID: identifyKey(secret), aead: aead}, err
}
