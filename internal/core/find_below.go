package core

// FindBelow returns the first of a store and those below it that is a T: an optional capability, or an adapter. A
// decorator that only passes calls on has a method Unwrap that returns the store below; one that must not be passed by
// has none.
func FindBelow[T, Store any](store Store) (T, bool) {
	for {
		if found, ok := any(store).(T); ok {
			return found, true
		}
		decorator, ok := any(store).(interface{ Unwrap() Store })
		if !ok {
			var none T
			return none, false
		}
		store = decorator.Unwrap()
	}
}
