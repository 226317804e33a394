package service

// Unallowed is for tests.
var Unallowed = (*Service).reportUnallowed

// ChooseLetters is for tests.
var ChooseLetters = (*Service).chooseLetters

// ProbeTags is for tests.
var ProbeTags = probeTags

// LongestRun is for tests.
var LongestRun = (*Service).longestRun
