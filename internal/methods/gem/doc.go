// Package gem holds the algorithms of graphical eigen memories (arXiv 2409.15566): chunks carry questions that they
// answer, chunks whose questions match each other's text are near, the leading eigenvectors of that graph are its
// themes, and a prompt is compared with questions. It is pure: no model, no store, no clock.
//
//  1. Vectors: b_i of a chunk's text and q_ij of its questions, of unit length; v_ij = unit(q_ij + b_i); u_i = the mean
//     of v_ij over j (vectors.go).
//  2. Graph: s_ij = u_i . b_j is how well i's questions match j's text, W = (S + S^T) / 2 with a diagonal of zeros. As
//     a Matrix (small), Implicit (never stored: a product costs two passes over the vectors) or Sparse (each node's
//     nearest, which makes themes sharper).
//  3. Spectrum of L = D^-1/2 W D^-1/2 with D the row sums of W: by a direct solver where it is small, else by Lanczos
//     with restarts. Every pair that is given carries its residual |L x - lambda x|, which was computed and not
//     estimated.
//  4. Themes: of each eigenvector, whose sign is fixed, the nodes of its largest components. The first is the overview:
//     it is in proportion to sqrt(d) and says how central a node is.
//  5. Retrieval: a node's score is that of its best question.
//
// Results depend on the input alone, not on the number of processors: sums are taken over blocks of fixed size, and
// random numbers come from fixed seeds.
package gem
