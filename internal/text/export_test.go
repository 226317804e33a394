package text

// Pieces are the words of UAX #29, before signs are taken in.
var Pieces = splitPieces
