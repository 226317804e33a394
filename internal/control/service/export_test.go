package service

// Unallowed is for tests.
var Unallowed = (*Service).reportUnallowed

// ChooseLetters is for tests.
var ChooseLetters = (*Service).chooseLetters
