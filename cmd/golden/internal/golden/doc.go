// Package golden runs files of reference numbers through this module: it finds the kind of a file by its content, computes
// every case, and compares or prints the results. Each kind is in a file of its own; Kinds lists them.
//
// Numbers are JSON's; NaN and infinities are the strings "nan", "inf", "-inf". Not safe for concurrent use of one File.
package golden
