/// A model that was inferred, as text.
package struct InferredText {
    /// A key path of an entity's records.
    package struct Key {
        package let path: String
        /// The reason why the values identify nothing; nil where they may.
        package let nonidentityReason: String?
    }

    package let text: String
    /// The parts that the model which the samples extend lacks; all of the model when there is none.
    package let `extension`: ModelExtension
    /// By entity, in the order of the model: what identifies its objects, as a sentence.
    package let identities: [(entity: String, text: String)]
    /// The records have values that the model names.
    package let hasValues: Bool
    /// By entity, its values.
    package let keys: [String: [Key]]
    /// The mapping that reads the records, where their entity alone does not.
    package let mapping: String?
}
