package service

// Unallowed is for tests.
var Unallowed = (*Service).reportUnallowed
