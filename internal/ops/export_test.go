package ops

// Unallowed is for tests.
var Unallowed = (*Service).unallowed
