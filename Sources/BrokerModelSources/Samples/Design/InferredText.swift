/// A model that was inferred, as text.
package struct InferredText {
    package let text: String
    /// The parts that the model which the samples extend lacks; all of the model when there is none.
    package let `extension`: ModelExtension
    /// By entity, in the order of the model: what identifies its objects, as a sentence.
    package let identities: [(entity: String, text: String)]
    /// The records have values that the model names.
    package let hasValues: Bool
    /// By entity, the key paths of the values that all its objects have and that may identify them.
    package let designed: [String: [String]]
    /// The mapping that reads the records, where their entity alone does not.
    package let mapping: String?
}
