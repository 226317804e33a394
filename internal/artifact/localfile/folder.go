package localfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// ownerOf gives the user that a file belongs to; a variable so that a test can be another user.
var ownerOf = durable.Owner

// MakeFolder gives the folder of a program's cache and makes it: the configured one, or where none is configured one of
// this user for this program. It is this user's alone. In a folder that is meant for all users (the sticky bit: /tmp, a
// tmpfs of a container) the cache gets a separate one; a folder of another user is refused, as the one who writes to it
// decides what is served.
func MakeFolder(configured, program string) (string, error) {
	folder := configured
	if folder == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fault.BadConfig.At("choose the cache folder of", program).
				Because(err).
				Advise("set UNWEAVER_CACHE_DIR")
		}
		folder = filepath.Join(base, "unweaver", program)
	}
	return makePrivate(folder)
}

func makePrivate(folder string) (string, error) {
	if info, err := os.Stat(folder); err == nil && info.Mode()&fs.ModeSticky != 0 {
		folder = filepath.Join(folder, fmt.Sprintf("unweaver-%d", os.Geteuid()))
	}
	if err := durable.MkdirPrivate(folder); err != nil {
		return "", localFault("make cache", folder, err)
	}
	if why := durable.CheckOwn(folder, ownerOf); why != nil {
		return "", fault.StoreDenied.At("use cache", folder).
			Because(why).
			Advise("set UNWEAVER_CACHE_DIR to a folder that this user owns, such as a new subfolder")
	}
	return folder, nil
}
