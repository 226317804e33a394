package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/engine/codec"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// KeyObject is where the artifact store keeps which codec key an installation has. No index can have that name.
const KeyObject = "_engine/codec-key.json"

type keyRecord struct {
	Key string `json:"key"` // its id, which says nothing of the key
}

// KeepKey writes down which codec key the installation has, where nothing is yet, and checks it as CheckKey does. A
// worker calls it before it takes work.
func KeepKey(ctx context.Context, artifacts blob.Store, configured config.Engine) error {
	if configured.CodecKey != "" {
		key, err := codec.Load(configured.CodecKey)
		if err != nil {
			return err
		}
		_, err = blob.WriteJSON(ctx, artifacts, KeyObject, keyRecord{Key: key.ID}, blob.Cond{Absent: true})
		if err != nil && !fault.Is(err, fault.Precondition) {
			return err
		}
	}
	return CheckKey(ctx, artifacts, configured)
}

// CheckKey returns an error where a program has another codec key than the workers of its installation, or none: a
// worker with another key ends every run whose task it takes, and a run that is started with another key ends at once.
func CheckKey(ctx context.Context, artifacts blob.Store, configured config.Engine) error {
	var kept keyRecord
	_, err := blob.ReadJSON(ctx, artifacts, KeyObject, &kept)
	if fault.Is(err, fault.NotFound) { // no worker with a key was started yet
		return nil
	}
	if err != nil {
		return err
	}
	mine, why := "", errors.New("this program has none")
	if configured.CodecKey != "" {
		key, err := codec.Load(configured.CodecKey)
		if err != nil {
			return err
		}
		mine, why = key.ID, fmt.Errorf("this program has key %s", key.ID)
	}
	if mine == kept.Key {
		return nil
	}
	where := artifacts.Location(KeyObject)
	return fault.BadConfig.At("use the codec key", configured.CodecKey).
		Because(fmt.Errorf("%w, and the installation's runs are written with key %s (%s)", why, kept.Key, where)).
		Advise("give engine.codec_key_file the file that the installation's other programs have; to change the key, " +
			"stop every worker while no run is in flight, remove " + where + " and start them with the new one")
}
