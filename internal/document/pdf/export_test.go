package pdf

// CollectionOf reads a map of codes to characters.
var CollectionOf = collectionOf
