/// A number of `errno`, with which an operation of the file system fails.
package struct FileError: Error, Equatable {
    package let number: Int32

    package init(_ number: Int32) { self.number = number }
}
