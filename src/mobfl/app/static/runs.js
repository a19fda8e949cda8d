export class RunsView { constructor(){} draw(){} }
