// Package atomicfile replaces a file as a whole: at every moment, a crash or a power cut included, the path holds
// either the old content or the new one, never a part.
//
// WriteFile writes a temporary file in the same folder, syncs it, renames it over the path and syncs the folder, so
// that the new content is durable when the call returns. Any failure before the rename removes the temporary file and
// leaves the old content as it was. A process that is killed leaves the temporary file behind: its name begins with a
// dot and holds ".tmp-", nothing reads it, and the next process that writes into the folder removes it (a lock shows
// that nobody holds it).
//
// A file that exists keeps its permission bits (not its owner, extended attributes or hard links, which no rename can
// keep). A symbolic link is followed: its target is replaced, the link stays. Folders, devices and pipes are refused.
//
// Every call is safe from many goroutines and processes; of two writers of one path the later rename wins.
// Errors name the path and unwrap to the system's error (errors.Is with fs.ErrPermission, syscall.ENOSPC, …).
package atomicfile
