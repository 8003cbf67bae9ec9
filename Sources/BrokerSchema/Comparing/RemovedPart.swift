/// A part of the stored model that the wanted one lacks, by its indices.
package enum RemovedPart {
    case entity(Int)
    case part(PartKind, Int, of: Int)
}
