/// Finds the records in an input's bytes.
protocol RecordReader {
    /// The position of the next byte.
    var place: InputPlace { get }

    /// Adds the next bytes and passes every complete record to `emit`.
    ///
    /// - Throws: the first fault, after the records before it were passed on; or the error of `emit`.
    mutating func feed(_ bytes: [UInt8], _ emit: (InputRecord) throws(InputFault) -> Void) throws(InputFault)

    /// The input ends.
    mutating func finish(_ emit: (InputRecord) throws(InputFault) -> Void) throws(InputFault)
}
