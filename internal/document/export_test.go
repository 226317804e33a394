package document

var (
	OwnTitle     = ownTitle
	NamesColumns = namesColumns
)

// CollectionOf reads a map of codes to characters.
var CollectionOf = collectionOf
