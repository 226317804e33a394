package blob

import (
	"context"

	"github.com/unweaver/unweaver/internal/fault"
)

// Copier is a store whose server may be able to copy an object of another store by itself.
type Copier interface {
	// CopyFrom writes the object that from has under source, as it is, under key: true when it is durable and whole
	// there. False, without an error, where the server cannot: then nothing may be believed to lie under key. An object
	// that from does not have is fault.NotFound.
	CopyFrom(ctx context.Context, key string, from Store, source string) (bool, error)
}

// Copy writes the object that one store has under source into another under key. It goes through this process only
// where the server cannot copy it by itself.
func Copy(ctx context.Context, to Store, key string, from Store, source string) error {
	if copier, ok := to.(Copier); ok {
		resolved, err := resolveKey(ctx, from, source)
		if err != nil {
			return err
		}
		if done, err := copier.CopyFrom(ctx, key, from, resolved); done || err != nil {
			return err
		}
	}
	body, info, err := from.Get(ctx, source, All)
	if err != nil {
		return err
	}
	_, err = to.Put(ctx, key, body, info.Size, Cond{})
	if cerr := body.Close(); err == nil && cerr != nil {
		err = fault.StoreDown.At("read", from.Location(source)).Because(cerr)
	}
	return err
}

// Resolver is a decorator that finds objects under other keys than it is asked for.
type Resolver interface {
	Resolve(ctx context.Context, key string) (string, error)
}

// resolveKey gives the key that an object has in the store beneath its decorators.
func resolveKey(ctx context.Context, store Store, key string) (string, error) {
	for {
		if resolver, ok := store.(Resolver); ok {
			var err error
			if key, err = resolver.Resolve(ctx, key); err != nil {
				return "", err
			}
		}
		decorator, ok := store.(interface{ Unwrap() Store })
		if !ok {
			return key, nil
		}
		store = decorator.Unwrap()
	}
}
