package document

var OwnTitle = ownTitle

// CollectionOf reads a map of codes to characters.
var CollectionOf = collectionOf
