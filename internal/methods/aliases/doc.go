// Package aliases finds names that mean the same and maps them to one. Nothing is destroyed: what it gives is a
// table of representatives, which is applied when something is read, and without which everything is as it was.
//
//  1. Candidates are pairs whose vectors are near, which a search finds, or that are spelled the same.
//  2. Guards refuse a pair whatever its cosine: other numbers, another type, another proper noun (Guard).
//  3. Groups grow from the best pair on, as long as any two members are near enough (Merge).
//  4. People have the last word by a file (ParseFile).
package aliases
