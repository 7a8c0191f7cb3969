// Package theta estimates the number of distinct values by theta sketches, as Apache DataSketches
// defines them.
//
// A sketch keeps the smallest [Nominal] of the hashes of the values that were added, and the theta
// below which it keeps them. The package promises:
//
//   - The state of a sketch depends only on the set of values. It does not depend on their order, on
//     repetitions, or on how they were divided among sketches that were merged.
//   - Up to Nominal distinct values are counted exactly. For more, the relative standard error of the
//     estimate is 1/sqrt(Nominal-1), about 1.6 %.
//   - [Sketch.Bytes] is the serialized form of an ordered compact sketch with the default seed. It is the content of the
//     blobs of type apache-datasketches-theta-v1 of Puffin files, if each value is added as the bytes of its
//     single-value serialization in Iceberg.
//
// As in DataSketches, an empty value is not added.
//
// Sources: https://datasketches.apache.org/docs/Theta/ThetaSketches.html,
// https://iceberg.apache.org/puffin-spec/.
package theta
