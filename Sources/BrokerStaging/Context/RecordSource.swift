internal import BrokerJSON
internal import BrokerModel

/// Where the values of a record's attributes are.
struct RecordSource {
    /// The scanner's slots with the record's own values.
    let slots: Int
    /// The dictionary key of the record, where that key is one of its values.
    var nestedKey: JSONValue?
    /// The record that contains it, where that one brings values of its own, or owns it.
    var holder: RecordHolder?
    /// Values of path parameters, for attributes that a record of the operation lacks.
    var parameters: PathParameters?
    /// The record has keys, and none of them is known.
    var hasOnlyUnknownKeys = false

    /// Moves a fault in a path parameter to the record, because the parameter is not in the record's text.
    ///
    /// - Parameter extent: the text of the record.
    func relocated(_ fault: StagingFault, at offset: Int, in extent: Range<Int>) -> (StagingFault, Int) {
        guard parameters != nil, case .invalid(let fault, let own) = fault, !extent.contains(own) else {
            return (fault, offset)
        }
        return (.invalid(fault, offset: extent.lowerBound), extent.lowerBound)
    }
}
